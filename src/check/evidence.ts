import { eventsOf } from "../model/event.ts";
import { callablesOf, takesAddress } from "./attacks.ts";
import { validCalls } from "./calls.ts";
import { answeredReads } from "./reads.ts";
import { type CheckView, exchangesOf, givesList, listMethods } from "./check-view.ts";
import { plannedMethods } from "./planned-requests.ts";
import { placeOf, workingProbes } from "./touched.ts";

/** What shows that a part of a check could judge something. */
export interface CheckEvidence {
  /** Numbers of events that show it. */
  readonly evidence: readonly number[];
  /** Why the part judged nothing, and what to do; absent: it judged something. */
  readonly lack?: string;
}

/** The evidence of one part of a check, by what the part is about. */
export function evidenceIn(view: CheckView): CheckEvidence {
  const { spec, exchanges, events } = view;
  const answers = (of: typeof exchanges): readonly number[] => of.flatMap(({ answer }) => answer?.seq ?? []);
  switch (spec.kind) {
    case "calls": {
      const answered = answers(exchangesOf(exchanges, "tools/call"));
      const { made, succeeded } = validCalls(view);
      if (answered.length === 0 || succeeded > 0)
        return lacking(answered, "the server answered no call in time; --call-timeout gives calls more time");
      const lack = `none of the ${made} calls with valid arguments succeeded; give the server what it works with (${needs}), or call more tools with --calls all`;
      return { evidence: answered, lack };
    }
    case "security": {
      // Of a server at an address little can be seen, and of a program without a sandbox nothing that was asked for.
      const isProgram = eventsOf(events, "server.started").some(({ transport }) => transport === "stdio");
      if (isProgram && spec.confined !== true)
        return {
          evidence: [],
          lack: `what the server does was not seen: ${spec.notWatched ?? "there is no sandbox"}`,
        };
      const isCalled = spec.calls !== undefined && spec.calls.length > 0;
      if (!isCalled && spec.reads?.some(({ attack }) => attack !== undefined) !== true) {
        const answered = answers(exchanges);
        const isIdle =
          spec.confined === true && view.surface.tools.length + callablesOf(view.surface).length > 0;
        if (answered.length > 0 && isIdle)
          return {
            evidence: answered,
            lack: "nothing of what the server lists was called: no valid arguments could be made; give examples in the input schemas",
          };
        return lacking(answered, "the server answered nothing");
      }
      const answered = answers(exchangesOf(exchanges, ...plannedMethods));
      const kinds = isCalled ? (["tool"] as const) : (["prompt", "resource"] as const);
      if (
        answered.length > 0 &&
        spec.confined === true &&
        !workingProbes(view).some((probe) => kinds.some((kind) => placeOf(probe).place?.[kind] !== undefined))
      )
        return {
          evidence: answered,
          lack: `no ${kinds.join(" or ")} did its work in the sandbox: every call without hostile arguments failed; give the server what it works with (${needs})`,
        };
      const isBlind = spec.confined === true && (spec.watched !== "all" || spec.answers !== true);
      const reaching = callablesOf(view.surface).find(({ inputSchema }) => takesAddress(inputSchema));
      if (isBlind && reaching !== undefined)
        return {
          evidence: answered,
          lack: `where it connects was not seen as a whole, and the ${reaching.kind} ${reaching.name} may take an address: ${spec.notWatched}`,
        };
      return lacking(answered, "the server answered no call in time");
    }
    case "reads":
      return lacking(answeredReads(view), "the server gave no resource and no prompt that it lists");
    case "stability":
      return lacking(
        answers(exchangesOf(exchanges, ...listMethods).filter(givesList)),
        "the server gave no list again",
      );
    case "conformance":
      return lacking(
        eventsOf(events, "conformance.checked")
          .filter(({ status }) => status !== "SKIPPED")
          .map(({ seq }) => seq),
        "the conformance suite checked nothing",
      );
    default:
      return lacking(answers(exchanges), "the server answered nothing");
  }
}

function lacking(evidence: readonly number[], lack: string): CheckEvidence {
  return evidence.length === 0 ? { evidence, lack } : { evidence };
}

/** What tools often lack where a check runs. */
const needs = "a file or folder as an argument, an environment variable with -e NAME=VALUE, a service";
