/** Environment variables by name. */
export type EnvironmentVariables = Readonly<Record<string, string>>;

/** The environment of this process: the only place that reads it. */
export function environment(): EnvironmentVariables {
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}
