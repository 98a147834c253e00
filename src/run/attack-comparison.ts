import { type EventOf, type EventBody, eventsOf, type TraceEvent, unrecordedArgs } from "../model/event.ts";
import { comparedVariants, type Plan, type Trial } from "../model/plan.ts";
import { asksFor, type Attack } from "../model/server.ts";
import { untilAborted } from "../process/deadline.ts";
import { readTrace, type Trajectory, type TraceView } from "../trace/trajectory.ts";
import type { TrialSource } from "./remote/trial-source.ts";

type Compared = Pick<EventOf<"attack.compared">, "ended" | "calls">;

/** Of calls in a record, in characters of JSON: a call that an agent makes again and again has new arguments each time. */
const maxRecorded = 100_000;

/** An attack that asks for a tool of a server. */
interface Asking {
  readonly attack: Attack;
  /** The trials of the same agent and task without an attack. In the plan they come before those under it, so that they have begun before. */
  readonly trials: readonly string[];
}

/** What trials without an attack do with the tools that attacks ask for, for the trials under these attacks. */
export class AttackComparison {
  /** By the ids of trials under such attacks. */
  readonly #asking: ReadonlyMap<string, Asking>;
  /** By the ids of trials without an attack; each is settled when that trial has ended. */
  readonly #records = new Map<string, PromiseWithResolvers<Compared>>();
  readonly #attacks: readonly Attack[];
  readonly #eventsOf: TrialSource["eventsOf"] | undefined;

  /** `eventsOf`: of trials that others run. Absent: all trials are added here. */
  constructor(plan: Plan, eventsOf?: TrialSource["eventsOf"]) {
    this.#asking = askingTrials(plan);
    this.#attacks = [...new Set(Array.from(this.#asking.values(), ({ attack }) => attack))];
    this.#eventsOf = eventsOf;
    for (const { trials } of this.#asking.values())
      for (const id of trials) if (!this.#records.has(id)) this.#records.set(id, Promise.withResolvers());
  }

  /** Adds what happened in a trial. */
  add({ trial, ...view }: Trajectory): void {
    const record = this.#records.get(trial.id);
    if (record === undefined) return;
    const { ended, calls } = callsIn(view);
    // The others would only take memory.
    record.resolve({
      ended,
      calls: calls.filter((call) => this.#attacks.some((attack) => asksFor(attack, call))),
    });
  }

  /** Says that a trial will not be added any more. */
  end({ id }: Pick<Trial, "id">): void {
    this.#records.get(id)?.resolve({ ended: [], calls: [] });
  }

  /**
   * What to record of a trial: undefined where its attack asks for no tool, or its agent did not call that. Waits for the trials that it is
   * compared with. Rejects with the signal's reason.
   */
  async compare(
    trial: Trial,
    events: readonly TraceEvent[],
    signal: AbortSignal,
  ): Promise<EventBody | undefined> {
    const asking = this.#asking.get(trial.id);
    if (asking === undefined) return undefined;
    const { attack, trials } = asking;
    const { requests } = readTrace(events);
    if (!requests.some(({ type, call }) => type === "tool" && asksFor(attack, call))) return undefined;
    const records = await (this.#eventsOf === undefined
      ? untilAborted(Promise.all(trials.flatMap((id) => this.#records.get(id)?.promise ?? [])), signal)
      : this.#eventsOf(trials, trial, signal).then((all) => all.map((each) => callsIn(readTrace(each)))));
    const known = new Map<string, Compared["calls"][number]>();
    let characters = 0;
    for (const call of records.flatMap(({ calls }) => calls)) {
      const { trial, ...made } = call;
      const key = JSON.stringify(made);
      if (!asksFor(attack, call) || known.has(key)) continue;
      if (characters + key.length <= maxRecorded) {
        characters += key.length;
        known.set(key, call);
      } else {
        const unrecorded = { ...made, args: unrecordedArgs };
        const last = JSON.stringify(unrecorded);
        if (!known.has(last)) known.set(last, { trial, ...unrecorded });
      }
    }
    return {
      type: "attack.compared",
      ended: records.flatMap(({ ended }) => ended),
      calls: [...known.values()],
    };
  }
}

/** The trials under attacks that ask for a tool of a server, by id. */
function askingTrials(plan: Plan): ReadonlyMap<string, Asking> {
  const compared = comparedVariants(plan);
  if (compared.size === 0) return new Map();
  const attacks = new Map(plan.variants?.map(({ name, attack }) => [name, attack]));
  const byVariant = Map.groupBy(plan.trials, (trial) => sideOf(trial, trial.variant ?? ""));
  return new Map(
    plan.trials.flatMap((trial) => {
      const { variant = "" } = trial;
      const [attack, other] = [attacks.get(variant), compared.get(variant)];
      if (attack === undefined || other === undefined) return [];
      return [
        [trial.id, { attack, trials: (byVariant.get(sideOf(trial, other)) ?? []).map(({ id }) => id) }],
      ];
    }),
  );
}

/** Equal for the trials of an agent in a task that are compared with the same ones. */
function sideOf({ task, agent }: Trial, variant: string): string {
  return JSON.stringify([task, agent, variant]);
}

/** The calls of tools that servers got in a trial, and its id where it came to its end. */
function callsIn({ events, requests }: TraceView): Compared {
  const finished = eventsOf(events, "trial.finished").at(-1);
  const { trial = "" } = events[0] ?? {};
  return {
    ended: finished?.outcome === "completed" ? [trial] : [],
    calls: requests.flatMap(({ type, call: { server, tool, args } }) =>
      type === "tool" && server !== null ? [{ trial, server, tool, args }] : [],
    ),
  };
}
