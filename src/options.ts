import { McpvalsError } from "./core/errors/error.ts";
import { suggestion } from "./core/formats/did-you-mean.ts";
import { parseDuration } from "./core/formats/duration.ts";

/** Whether the value of an option is right, and what it must be otherwise. */
export type OptionCheck = readonly [isRight: (value: unknown) => boolean, expected: string];

/** The check of each option of a function of the library. */
export type OptionChecks<Options> = { readonly [K in keyof Required<Options>]: OptionCheck };

export const isText = (value: unknown): value is string => typeof value === "string";
export const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);

export const yesOrNo: OptionCheck = [(value) => typeof value === "boolean", "true or false"];

export const milliseconds: OptionCheck = [
  (value) => typeof value === "number" && parseDuration(value) !== undefined,
  "a number of milliseconds above zero",
];

/** Options that several functions have. */
export const commonChecks = {
  cwd: [isText, "the path of a folder"],
  env: [
    (value: unknown) => typeof value === "object" && value !== null && Object.values(value).every(isText),
    "an object of texts",
  ],
  output: [(value: unknown) => value === false || isText(value), "the path of a folder, or false"],
  signal: [(value: unknown) => value instanceof AbortSignal, "an AbortSignal"],
} as const satisfies Readonly<Record<string, OptionCheck>>;

/** Checks the options that callers without TypeScript give to a function. Throws `usage/invalid-option`. */
export function checkOptions<Options extends object>(
  caller: string,
  options: Options,
  checks: OptionChecks<Options>,
): void {
  const known: Readonly<Record<string, OptionCheck>> = checks;
  for (const [name, value] of Object.entries(options)) {
    const check = Object.hasOwn(known, name) ? known[name] : undefined;
    if (check === undefined) {
      throw new McpvalsError("usage/invalid-option", `${caller} has no option "${name}"`, {
        hint: suggestion(name, Object.keys(known), "options"),
      });
    }
    const [isRight, expected] = check;
    if (value !== undefined && !isRight(value)) {
      throw new McpvalsError("usage/invalid-option", `the option ${name} of ${caller} must be ${expected}`);
    }
  }
}
