import { inspect } from "node:util";

/** Most causes that are told. */
const mostCauses = 5;

/** The message of anything that was thrown, with the messages of its causes that it does not repeat. */
export function errorText(error: unknown): string {
  const texts: string[] = [];
  for (let next: unknown = error, left = mostCauses; next !== undefined && left > 0; left -= 1) {
    const text = next instanceof Error ? ownText(next) : typeof next === "string" ? next : inspect(next);
    if (!texts.some((before) => before.includes(text))) texts.push(text);
    next = next instanceof Error ? next.cause : undefined;
  }
  return texts.join(": ");
}

/** Some errors, such as those of a connection tried at several addresses, have their text in their parts only. */
function ownText(error: Error): string {
  if (error.message !== "") return error.message;
  const parts: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return parts.map(errorText).join("; ") || error.name;
}
