import type { Json } from "../base/json.ts";
import type { Attack } from "../model/check.ts";
import type { FindingPlace } from "../model/finding.ts";
import { conditionForms, product, reachedAt } from "./attacks.ts";
import { canariesIn, isSecret, markerPrefix } from "./canaries.ts";
import { type CheckView, type Found, type ProbeView, resultOf, type Rule } from "./check-view.ts";
import { placeKey, placeOf, plannedExchange, plannedIn, touchedIn, whatHappened } from "./touched.ts";

type About = Omit<Rule, "severity" | "find">;

/** A rule about what refuses an argument, and takes it in another form. */
export function escape(aims: readonly Attack["aim"][], about: About): Rule {
  return {
    severity: "error",
    ...about,
    *find(view) {
      for (const group of successes(view, aims)) {
        // What it reaches for plain arguments it may be made for.
        const open = new Set(group.flatMap(({ attack, reached }) => (attack.isWhole ? [reached] : [])));
        const past = group.filter(({ reached }) => !open.has(reached));
        if (past.length > 0) yield aboutAttacks(past);
      }
    },
  };
}

/** A rule about what takes anything of a sort, which may be what it is for. */
export function anything(aims: readonly Attack["aim"][], about: About): Rule {
  return {
    severity: "warning",
    ...about,
    *find(view) {
      for (const group of successes(view, aims)) {
        const whole = group.filter(({ attack }) => attack.isWhole);
        if (whole.length > 0) yield aboutAttacks(whole);
      }
    },
  };
}

function aboutAttacks(group: readonly Success[]): Found {
  const [first] = group;
  const forms = [
    ...new Set(group.map(({ attack, isRaw }) => `${attack.form}${isRaw ? " as it is in the URI" : ""}`)),
  ];
  return {
    ...(first === undefined ? {} : { place: first.place }),
    message: `${first?.shown}; what worked: ${forms.join(", ")}`,
    evidence: first?.evidence ?? [],
  };
}

/** A hostile argument that was sent. */
interface Tried {
  /** What got it, and as which parameter. */
  readonly place: FindingPlace;
  readonly attack: Attack;
  /** Whether it stands in a URI without percent-encoding. */
  readonly isRaw: boolean;
}

interface Success extends Tried {
  readonly evidence: readonly number[];
  readonly shown: string;
  /** What a request got to. Absent: it is no request. */
  readonly reached?: Sign["reached"];
}

/** The hostile argument of a probe; undefined: there is none. */
function triedIn(probe: ProbeView): Tried | undefined {
  const attack = plannedIn(probe)?.attack;
  if (attack === undefined) return undefined;
  const place = { ...placeOf(probe).place, parameter: attack.parameter };
  return { place, attack, isRaw: probe.read?.isRaw === true };
}

/** The hostile arguments of some aims that worked, by what got them and parameter. */
function successes(view: CheckView, aims: readonly Attack["aim"][]): readonly (readonly Success[])[] {
  const harmless = new Map<string, Set<string>>();
  const harmlessIn = (probe: ProbeView): Set<string> => {
    const key = placeKey(probe);
    const seen = harmless.get(key) ?? new Set();
    harmless.set(key, seen);
    return seen;
  };
  for (const probe of view.probes) {
    const planned = plannedIn(probe);
    if (planned === undefined) continue;
    const { attack } = planned;
    // An answer that has a secret also where the argument asks for something else: security/secret-shown reports it.
    for (const sign of signsIn(view, probe))
      if (attack === undefined || (sign.isSaid && sign.aim === "read" && aimOf(attack) !== "read"))
        harmlessIn(probe).add(sign.shown);
  }
  const found = view.probes.flatMap((probe): readonly Success[] => {
    const tried = triedIn(probe);
    if (tried === undefined || !aims.includes(tried.attack.aim)) return [];
    const exchange = plannedExchange(probe);
    const sign = signsIn(view, probe).find(
      ({ aim, shown }) => aim === aimOf(tried.attack) && !harmlessIn(probe).has(shown),
    );
    if (sign === undefined || exchange === undefined) return [];
    const { shown, seq, reached } = sign;
    return [{ ...tried, shown, reached, evidence: [exchange.request.seq, seq] }];
  });
  const conditional = aims.includes("sql") ? conditionSuccesses(view) : [];
  return [...Map.groupBy([...found, ...conditional], ({ place }) => JSON.stringify(place)).values()];
}

/**
 * Arguments with a condition in SQL on which the result depends: all those that hold give one result, all those that do not another one,
 * also where the texts are left out that the server repeats.
 */
function conditionSuccesses(view: CheckView): readonly Success[] {
  // One that was made again, since the server ended, counts once.
  const first = [...Map.groupBy(view.probes, plannedIn).values()].flatMap(([probe]) => probe ?? []);
  const all = first.flatMap((probe) => {
    const exchange = plannedExchange(probe);
    const tried = triedIn(probe);
    if (tried?.attack.aim !== "sql" || exchange?.answer === undefined) return [];
    const sent = new Set(textsIn([exchange.params["uri"] ?? [], plannedIn(probe)?.args ?? {}]));
    const result = [...sent].reduce(
      (said, text) => said.replaceAll(JSON.stringify(text).slice(1, -1), ""),
      JSON.stringify([resultOf(exchange), exchange.answer.message["error"]]),
    );
    return [{ ...tried, result, evidence: [exchange.request.seq, exchange.answer.seq] }];
  });
  const ofParameter = Map.groupBy(all, ({ place, isRaw }) => JSON.stringify([place, isRaw]));
  return [...ofParameter.values()].flatMap((tried) =>
    Object.values(conditionForms).flatMap(({ holds, fails }): readonly Success[] => {
      const [held, failed] = [holds, fails].map((form) => tried.filter(({ attack }) => attack.form === form));
      const [one, other] = [held, failed].map((each) => new Set(each?.map(({ result }) => result)));
      const [shown] = held ?? [];
      const isShown =
        held?.length === 2 &&
        failed?.length === 2 &&
        one?.size === 1 &&
        other?.size === 1 &&
        !one.has([...other][0] ?? "");
      if (!isShown || shown === undefined) return [];
      const evidence = [...held, ...failed].flatMap((each) => each.evidence);
      return [{ ...shown, shown: "the result depends on a condition in the text, twice", evidence }];
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
    const { access, target, failed, folder, seq } = event;
    if (access === "connect") {
      const reached = reachedAt(unmapped(target));
      const shown = whatHappened({ ...event, target: unmapped(target) });
      return reached === undefined ? [] : [{ aim: "request", shown, isSaid: false, reached, seq }];
    }
    // A tool that adds something to a path opens a file that is not there; other errors are those of a system that keeps it out.
    if (failed !== undefined && (access !== "read" || !notThere.includes(failed))) return [];
    if (target.startsWith(`~/${markerPrefix}`))
      return access === "write"
        ? [{ aim: "run", shown: "the file that the command makes is there", isSaid: false, seq }]
        : [];
    // In its folder, a path may end as one beside it does.
    return folder === undefined && isSecret(target) && access !== "run"
      ? [{ aim: "read", shown: whatHappened(event), isSaid: false, seq }]
      : [];
  });
  const exchange = plannedExchange(probe);
  const { answer } = exchange ?? {};
  if (exchange === undefined || answer === undefined) return touched;
  const text = JSON.stringify(answer.message);
  const said = (aim: Sign["aim"], shown: string): Sign => ({ aim, shown, isSaid: true, seq: answer.seq });
  const places = canariesIn(text).filter((place) => !place.startsWith("$"));
  const worked = resultOf(exchange) !== undefined && text.includes(product);
  return [
    ...places.map((place) => said("read", `the answer has the secret of ${place}`)),
    ...(worked ? [said("template", `the answer has the product ${product}`)] : []),
    ...touched,
  ];
}

/** Errors of the system where a path leads to nothing that can be opened so. */
const notThere: readonly string[] = ["ENOENT", "ENOTDIR", "EISDIR"];

/** An address of IPv6 that stands for one of IPv4, as that. */
function unmapped(address: string): string {
  return address.replace(/^\[::ffff:([\d.]+)\]/, "$1");
}
