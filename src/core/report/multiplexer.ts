import type { Awaitable, Reporter } from "./reporter.ts";

export interface NamedReporter {
  readonly name: string;
  readonly reporter: Reporter;
}

/** What a reporter threw; it heard nothing more of the run. */
export interface ReporterFailure {
  readonly reporter: string;
  readonly error: unknown;
}

/** Several reporters as one, with what went wrong in them. */
export interface Multiplexer extends Required<Reporter> {
  readonly errors: readonly ReporterFailure[];
}

/**
 * Tells every reporter everything. A reporter that throws, or whose promise rejects, is dropped and its error kept in
 * `errors`: it can never end a run. `close` reaches dropped reporters too, so that what they hold is let go.
 * No method of the multiplexer throws or rejects.
 */
export function createMultiplexer(reporters: readonly NamedReporter[]): Multiplexer {
  const errors: ReporterFailure[] = [];
  const active = new Set(reporters);

  const drop = (entry: NamedReporter, error: unknown): void => {
    active.delete(entry);
    errors.push({ reporter: entry.name, error });
  };
  const ask = async (entry: NamedReporter, tell: (reporter: Reporter) => Awaitable<void>): Promise<void> => {
    try {
      await tell(entry.reporter);
    } catch (error) {
      drop(entry, error);
    }
  };
  const askAll = async (tell: (reporter: Reporter) => Awaitable<void>): Promise<void> => {
    await Promise.all([...active].map((entry) => ask(entry, tell)));
  };

  return {
    errors,
    onRunStart: (start) => askAll((reporter) => reporter.onRunStart?.(start)),
    onTrialStart: (trial) => askAll((reporter) => reporter.onTrialStart?.(trial)),
    onEvent(event) {
      for (const entry of active) {
        try {
          const returned: unknown = entry.reporter.onEvent?.(event);
          // An async function passes for a listener that returns nothing; its rejection must not get lost.
          if (returned instanceof Promise) returned.catch((error: unknown) => drop(entry, error));
        } catch (error) {
          drop(entry, error);
        }
      }
    },
    onTrialEnd: (result) => askAll((reporter) => reporter.onTrialEnd?.(result)),
    onRunEnd: (end) => askAll((reporter) => reporter.onRunEnd?.(end)),
    async close() {
      await Promise.all(reporters.map((entry) => ask(entry, (reporter) => reporter.close?.())));
    },
  };
}
