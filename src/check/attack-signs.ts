import type { Json } from "../base/json.ts";
import type { Attack, PlannedCall } from "../model/check.ts";
import { conditionForms, product, reachedAt } from "./attacks.ts";
import { canariesIn, isSecret, markerPrefix } from "./canaries.ts";
import {
  type CheckView,
  exchangesOf,
  type Found,
  type ProbeView,
  resultOf,
  type Rule,
} from "./check-view.ts";
import { touchedIn, whatHappened } from "./touched.ts";

type About = Omit<Rule, "severity" | "find">;

/** A rule about tools that refuse an argument, and take it in another form. */
export function escape(aims: readonly Attack["aim"][], about: About): Rule {
  return {
    severity: "error",
    ...about,
    *find(view) {
      for (const group of successes(view, aims)) {
        // What it reaches for plain arguments it may be made for.
        const open = new Set(group.flatMap(({ call, reached }) => (call.attack.isWhole ? [reached] : [])));
        const past = group.filter(({ reached }) => !open.has(reached));
        if (past.length > 0) yield aboutAttacks(past);
      }
    },
  };
}

/** A rule about tools that take anything of a sort, which may be what they are for. */
export function anything(aims: readonly Attack["aim"][], about: About): Rule {
  return {
    severity: "warning",
    ...about,
    *find(view) {
      for (const group of successes(view, aims)) {
        const whole = group.filter(({ call }) => call.attack.isWhole);
        if (whole.length > 0) yield aboutAttacks(whole);
      }
    },
  };
}

function aboutAttacks(group: readonly Success[]): Found {
  const [first] = group;
  const forms = [...new Set(group.map(({ call }) => call.attack.form))].join(", ");
  return {
    ...(first === undefined
      ? {}
      : { place: { tool: first.call.tool, parameter: first.call.attack.parameter } }),
    message: `${first?.shown}; what worked: ${forms}`,
    evidence: first?.evidence ?? [],
  };
}

interface Success {
  readonly call: PlannedCall & { readonly attack: Attack };
  readonly evidence: readonly number[];
  readonly shown: string;
  /** What a request got to. Absent: it is no request. */
  readonly reached?: Sign["reached"];
}

/** The hostile arguments of some aims that worked, by tool and parameter. */
function successes(view: CheckView, aims: readonly Attack["aim"][]): readonly (readonly Success[])[] {
  const harmless = new Map<string, Set<string>>();
  for (const probe of view.probes) {
    if (probe.call === undefined) continue;
    const { tool, attack } = probe.call;
    const seen = harmless.get(tool) ?? new Set();
    // An answer that has a secret also where the argument asks for something else: security/secret-shown reports it.
    for (const sign of signsIn(view, probe))
      if (attack === undefined || (sign.isSaid && sign.aim === "read" && aimOf(attack) !== "read"))
        seen.add(sign.shown);
    harmless.set(tool, seen);
  }
  const found = view.probes.flatMap((probe): readonly Success[] => {
    const { call } = probe;
    if (call?.attack === undefined || !aims.includes(call.attack.aim)) return [];
    const { attack } = call;
    const [exchange] = exchangesOf(probe.exchanges, "tools/call");
    const sign = signsIn(view, probe).find(
      ({ aim, shown }) => aim === aimOf(attack) && harmless.get(call.tool)?.has(shown) !== true,
    );
    if (sign === undefined || exchange === undefined) return [];
    const { shown, seq, reached } = sign;
    return [{ call: { ...call, attack }, shown, reached, evidence: [exchange.request.seq, seq] }];
  });
  const conditional = aims.includes("sql") ? conditionSuccesses(view) : [];
  return [
    ...Map.groupBy([...found, ...conditional], ({ call }) =>
      JSON.stringify([call.tool, call.attack.parameter]),
    ).values(),
  ];
}

/**
 * Arguments with a condition in SQL on which the result depends: all those that hold give one result, all those that do not another one,
 * also where the texts are left out that the server repeats.
 */
function conditionSuccesses(view: CheckView): readonly Success[] {
  const tried = view.probes.flatMap(({ call, exchanges }) => {
    const [exchange] = exchangesOf(exchanges, "tools/call");
    if (call?.attack?.aim !== "sql" || exchange?.answer === undefined) return [];
    const { attack } = call;
    const sent = new Set(textsIn(call.args));
    const result = [...sent].reduce(
      (said, text) => said.replaceAll(JSON.stringify(text).slice(1, -1), ""),
      JSON.stringify([resultOf(exchange), exchange.answer.message["error"]]),
    );
    return [{ call: { ...call, attack }, result, evidence: [exchange.request.seq, exchange.answer.seq] }];
  });
  const ofParameter = Map.groupBy(tried, ({ call }) => JSON.stringify([call.tool, call.attack.parameter]));
  return [...ofParameter.values()].flatMap((all) =>
    Object.values(conditionForms).flatMap(({ holds, fails }): readonly Success[] => {
      const [held, failed] = [holds, fails].map((form) =>
        all.filter(({ call }) => call.attack.form === form),
      );
      const [one, other] = [held, failed].map((each) => new Set(each?.map(({ result }) => result)));
      const [first] = held ?? [];
      const isShown =
        held?.length === 2 &&
        failed?.length === 2 &&
        one?.size === 1 &&
        other?.size === 1 &&
        !one.has([...other][0] ?? "");
      if (!isShown || first === undefined) return [];
      const evidence = [...held, ...failed].flatMap((each) => each.evidence);
      return [{ call: first.call, shown: "the result depends on a condition in the text, twice", evidence }];
    }),
  );
}

/** The texts in a value. */
export function textsIn(value: Json): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

/** What shows that an attack worked: a marker for all that run something. */
function aimOf({ aim }: Attack): "read" | "run" | "request" | "template" | "size" {
  return aim === "command" || aim === "code" || aim === "sql" ? "run" : aim;
}

interface Sign {
  readonly aim: ReturnType<typeof aimOf>;
  readonly shown: string;
  /** Whether the answer shows it, rather than what was touched. */
  readonly isSaid: boolean;
  readonly reached?: ReturnType<typeof reachedAt>;
  readonly seq: number;
}

/** What in a probe would show that an attack worked. */
function signsIn(view: CheckView, probe: ProbeView): readonly Sign[] {
  const touched = touchedIn(view, probe).flatMap((event): readonly Sign[] => {
    const { access, target, failed, seq } = event;
    if (access === "connect") {
      const reached = reachedAt(unmapped(target));
      const shown = `it connected to ${unmapped(target)}`;
      return reached === undefined ? [] : [{ aim: "request", shown, isSaid: false, reached, seq }];
    }
    // A tool that adds something to a path opens a file that is not there.
    if (failed !== undefined && access !== "read") return [];
    if (target.startsWith(`~/${markerPrefix}`))
      return access === "write"
        ? [{ aim: "run", shown: "the file that the command makes is there", isSaid: false, seq }]
        : [];
    return isSecret(target) && access !== "run"
      ? [{ aim: "read", shown: whatHappened(event), isSaid: false, seq }]
      : [];
  });
  const said = exchangesOf(probe.exchanges, "tools/call").flatMap((exchange): readonly Sign[] => {
    const { answer } = exchange;
    if (answer === undefined) return [];
    const text = JSON.stringify(answer.message);
    const worked = resultOf(exchange) !== undefined && text.includes(product);
    return [
      ...canariesIn(text)
        .filter((place) => !place.startsWith("$"))
        .map((place): Sign => ({
          aim: "read",
          shown: `the answer has the secret of ${place}`,
          isSaid: true,
          seq: answer.seq,
        })),
      ...(worked
        ? [
            {
              aim: "template",
              shown: `the answer has the product ${product}`,
              isSaid: true,
              seq: answer.seq,
            } as const,
          ]
        : []),
    ];
  });
  return [...said, ...touched];
}

/** An address of IPv6 that stands for one of IPv4, as that. */
function unmapped(address: string): string {
  return address.replace(/^\[::ffff:([\d.]+)\]/, "$1");
}
