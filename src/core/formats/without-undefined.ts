/** An object type whose optional members are absent rather than undefined. */
export type WithoutUndefined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

/** Leaves out the members that are undefined. */
export function withoutUndefined<T extends object>(value: T): WithoutUndefined<T> {
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members) as WithoutUndefined<T>;
}
