/** What a request and its answer have in common; each connection has ids of its own. */
export function callKey(
  { server, client = "" }: { readonly server: string; readonly client?: string },
  id: string | number,
): string {
  return `${server}\n${client}\n${typeof id}\n${id}`;
}
