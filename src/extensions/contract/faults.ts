import type { ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import { type ContractVerdict, fail, type Finding, pass, skip } from "./contract-report.ts";

/** What must not happen whatever is asked; each is a check of its own, with what it says when nothing happened. */
const always = {
  stdout: "nothing but messages on stdout",
  "unfinished line": "every line had its end",
  logs: "logs are notifications, and not too many",
  "answer size": "no answer over 10 MB",
  "answers once": "every request was answered once",
  leftovers: "nothing that it started lived on",
} as const;

export type FaultName = keyof typeof always;

/** Faults of one shot, where there are neither lines nor logs. */
const oneShotNames: readonly FaultName[] = ["stdout", "answer size", "leftovers"];
/** Told of the faults of one kind. */
const mostTold = 3;

/** Collects what a program does wrong on the side, over all of its processes. */
export class Faults {
  readonly #found = new Map<FaultName, Found>();

  add(name: FaultName, message: string): void {
    const { told, more } = this.#found.get(name) ?? { told: [], more: 0 };
    if (told.includes(message)) return;
    // A program that writes without end has endless faults.
    const isFull = told.length === mostTold;
    this.#found.set(name, isFull ? { told, more: more + 1 } : { told: [...told, message], more });
  }

  /** `answered`: whether the program ever did; else that nothing was wrong says nothing. */
  verdicts(protocol: ExtensionProtocol, answered: boolean): readonly ContractVerdict[] {
    const names = protocol === "one-shot" ? oneShotNames : (Object.keys(always) as FaultName[]);
    return names.map((name) => {
      const found = this.#found.get(name);
      return { name, protocol, ...(found === undefined ? without(name, answered) : fail(textOf(found))) };
    });
  }
}

function without(name: FaultName, answered: boolean): Finding {
  return answered ? pass(always[name]) : skip("the program never answered");
}

/** Faults of one kind: the first of them, and how many there are besides. */
interface Found {
  readonly told: readonly string[];
  readonly more: number;
}

function textOf({ told, more }: Found): string {
  return told.join("; ") + (more > 0 ? `; and ${more} more` : "");
}
