/** What is chosen on a page lives in its address. These read it: anything that is not as expected is left out. */
export type RawSearch = Readonly<Record<string, unknown>>;

export function textOf(value: unknown): string | undefined {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function oneOf<const T extends string>(value: unknown, values: readonly T[]): T | undefined {
  return values.find((each) => each === value);
}
