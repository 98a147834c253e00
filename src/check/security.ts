import { asObject, exact, type Json, type JsonObject } from "../base/json.ts";
import { type Attack, type CalledKind, calledKinds, partsOf, type Touched } from "../model/check.ts";
import { eventsOf } from "../model/event.ts";
import { unknownKey } from "../base/secret-marks.ts";
import { countOf } from "../base/visible-text.ts";
import { addressRules, probeAddress } from "./address-security.ts";
import { anything, escape, textsIn } from "./attack-signs.ts";
import { actionsOf, callablesOf, isAction } from "./attacks.ts";
import { hasSucceeded } from "./calls.ts";
import { canariesIn, plantedFiles } from "./canaries.ts";
import { profileOf, witnessIn } from "./capability-profile.ts";
import {
  answersPing,
  type CheckView,
  endIn,
  exchangesOf,
  listKeys,
  isUnanswered,
  listingOf,
  type ProbeView,
  readSurface,
  type RuleTable,
} from "./check-view.ts";
import { regionFlags } from "./definitions.ts";
import { type Planned, placeOfPlanned, requestOf } from "./planned-requests.ts";
import { type Answer, isAnswer, type Prober, requestOrPing, type Session } from "./prober.ts";
import { differences, keptOf, variablePlaces } from "./stability.ts";
import {
  aboutAccess,
  type Access,
  attributed,
  ordinary,
  placeKey,
  placeOf,
  plannedExchange,
  plannedIn,
  touchedIn,
  whatHappened,
  when,
  workingProbes,
} from "./touched.ts";

/** The client as which the server is asked once more: the most used one. */
const otherClient = "claude-ai";

/**
 * Makes the requests of each tool, prompt and template with a server that was just started, among files that were just planted. After a
 * loss the server is started again.
 */
export async function probeSecurity(prober: Prober): Promise<void> {
  const { calls = [], reads = [], confined } = prober.check;
  const first = await startAndList(prober);
  if (first === undefined) return;
  // Each twice, so that what differs from start to start is not taken for what depends on the client.
  for (const clientName of [otherClient, otherClient, undefined]) await startAndList(prober, clientName);
  if (first.server.transport === "shttp") await probeAddress(prober);
  if (confined !== true) return;
  const steps: readonly Step[] = [
    ...calls.map((call, index) => ({ planned: call, about: { call: index } })),
    ...reads.map((read, index) => ({ planned: read, about: { read: index } })),
  ];
  // What has no arguments is read in one session.
  const keyOf = ({ planned }: Step): string =>
    planned.args === undefined ? "" : JSON.stringify(placeOfPlanned(planned));
  const series = [...Map.groupBy(steps, keyOf).values()];
  const working: (Planned | undefined)[] = series.map(() => undefined);
  await prober.sideBySide(series, async (beside, own, index) => {
    const made = new Series(beside);
    await made.probe(own);
    working[index] = made.worked.at(-1);
    return made.isReachable;
  });
  await probeLaterStart(
    prober,
    working.filter((planned) => planned !== undefined),
  );
}

/** Starts the server among files that were just planted, and asks what it lists. */
function startAndList(prober: Prober, clientName?: string): Promise<Session | undefined> {
  return prober.probe(clientName === undefined ? "start" : "other-client", async () => {
    await prober.plant();
    const session = await prober.connect({ asksBack: true, ...exact({ clientName }) });
    await prober.listAll(session);
    return session;
  });
}

/**
 * How often a hostile call is repeated, each time with a server that was just started, as long as the server is down after it. Some
 * servers have a race of their own, and end after every third call; one that hangs takes a whole time limit.
 */
const endRepetitions = 4;
const hangRepetitions = 1;
/**
 * How long the check waits for an end of the server after it answered, in milliseconds: after the last ordinary request and after hostile ones of
 * great size; and when a hostile one is repeated, since a busy machine takes longer.
 */
const lateEndMs = 100;
const repeatedLateEndMs = 2000;
/** Hostile requests before the one after which the server is down among which the reason is sought, where that one is not. */
const maxEarlier = 50;
/** A server may end while it answers a later request, so this many before the one at which it was seen to end are each repeated alone. */
const maxRepeated = 2;
/** Requests of one tool, prompt or template that get no answer in time before no more of them are made. */
const maxHangs = 2;
/**
 * When the answer to a hostile request is slow; and how long all slow ones of a tool, prompt or template may take together, and making
 * again those before an end, in milliseconds.
 */
const slowMs = 500;
const maxSlowMs = 30_000;

/** A planned request, and which call or read it is. */
interface Step {
  readonly planned: Planned;
  readonly about: Parameters<Prober["probe"]>[2];
}

/** How a call ended: without an answer in time, and with a server that is gone or answers nothing else either. */
interface CallEnd {
  readonly hangs: boolean;
  readonly isDown: boolean;
  readonly isAnswered: boolean;
  /** What it adds to the time of slow hostile requests. */
  readonly slowMs: number;
}

function isHostile({ attack }: Planned): boolean {
  return attack !== undefined;
}

/** What a request adds to the time that slow hostile ones take, in milliseconds. Ordinary ones may be slow. */
export function slowTime(planned: Planned, kind: Answer["kind"], tookMs: number): number {
  return isHostile(planned) && kind !== "none" && tookMs > slowMs ? tookMs : 0;
}

/**
 * The requests of one tool, prompt or template. A hostile one after which the server is down is made again and again, so that a server which
 * ends now and then is told from one that the request ends.
 */
class Series {
  readonly #prober: Prober;
  /** Ordinary requests that succeeded. */
  readonly worked: Planned[] = [];
  /** Undefined: the server did not start. */
  #session: Session | undefined;
  /** How the last request ended. */
  #end: CallEnd = { hangs: false, isDown: false, isAnswered: true, slowMs: 0 };
  /** The last hostile requests of the session. */
  #earlier: readonly Step[] = [];
  /** Whether a hostile request is known that ends the server. The report names one, so that no further is sought. */
  #isExplained = false;

  constructor(prober: Prober) {
    this.#prober = prober;
  }

  get isReachable(): boolean {
    return this.#session !== undefined;
  }

  async probe(steps: readonly Step[]): Promise<void> {
    await this.#start();
    let [hangs, hostileHangs] = [0, 0];
    /** How long slow hostile requests took together, without those that were made again. */
    let slow = 0;
    const ordered = inOrder(steps);
    for (const [index, step] of ordered.entries()) {
      if (!this.isReachable || slow > maxSlowMs) break;
      const { attack } = step.planned;
      // Ordinary requests that take too long, such as a search of a large folder, say nothing of hostile ones if another was answered.
      if (attack === undefined && hangs >= maxHangs) continue;
      const next = ordered[index + 1];
      const isLastOrdinary = next === undefined || isHostile(next.planned);
      const waits = attack === undefined ? isLastOrdinary : attack.aim === "size";
      await this.#make(step, waits ? lateEndMs : 0);
      slow += this.#end.slowMs;
      if (attack !== undefined && this.#end.isDown) await this.#explain(step);
      else if (attack !== undefined) this.#earlier = [...this.#earlier, step].slice(-maxEarlier);
      if (this.#end.hangs && attack === undefined) hangs += 1;
      else if (this.#end.hangs) hostileHangs += 1;
      if (hostileHangs >= maxHangs || (hangs >= maxHangs && this.worked.length === 0)) break;
      // What still works on one request may touch something during the next.
      if (this.isReachable && (this.#end.hangs || this.#end.isDown)) await this.#start();
    }
    await this.#relist();
  }

  async #start(): Promise<void> {
    this.#earlier = [];
    this.#session = await startAndList(this.#prober);
  }

  async #make({ planned, about }: Step, waitMs: number): Promise<void> {
    const client = this.#session?.client;
    if (client === undefined) return;
    const { method, params } = requestOf(withArgumentsThatWorked(planned, this.worked));
    const work = async (): Promise<CallEnd> => {
      const began = performance.now();
      const { answer, answersPing } = await requestOrPing(client, method, params);
      const { kind } = answer;
      const took = slowTime(planned, kind, performance.now() - began);
      const succeeded = answer.kind === "result" && hasSucceeded(answer.result);
      if (succeeded && !isHostile(planned)) this.worked.push(planned);
      // What a tool begins and does not wait for is seen, too, once the server has answered something else.
      if (kind !== "none" && !client.isLost) await client.request("ping");
      if (waitMs > 0) await client.waitForLoss(waitMs);
      const isAnswered = isAnswer(answer);
      return { hangs: kind === "none", isDown: !answersPing, isAnswered, slowMs: took };
    };
    const ordinaryProbe = "tool" in planned ? "call" : "read";
    const end = await this.#prober.probe(isHostile(planned) ? "attack" : ordinaryProbe, work, about);
    this.#end = {
      hangs: end?.hangs === true,
      isDown: client.isLost || end?.isDown === true,
      isAnswered: end?.isAnswered === true,
      slowMs: end?.slowMs ?? 0,
    };
  }

  /**
   * Looks whether the server is down because of the last hostile request, or of one before it, after which the end came late. Of several that
   * end it late the first is sought, so that it is the same in each check.
   */
  async #explain(last: Step): Promise<void> {
    if (this.#isExplained) return;
    const { hangs } = this.#end;
    const earlier = this.#earlier;
    const isLast = await this.#repeat(last, hangs ? hangRepetitions : endRepetitions);
    const isFirst = hangs || (isLast && !this.#end.isAnswered);
    this.#isExplained = (!isFirst && (await this.#isLateEnd(earlier))) || isLast;
  }

  /**
   * Looks for a hostile request after which the server ends late: makes all but the last once more, in their order, until it ends; then repeats
   * the two before that end, which may come late again, and the last.
   */
  async #isLateEnd(earlier: readonly Step[]): Promise<boolean> {
    const others = earlier.slice(0, -maxRepeated);
    if (others.length > 0) await this.#start();
    const began = performance.now();
    let made = 0;
    let isDown = false;
    for (const step of others) {
      if (!this.isReachable || isDown || performance.now() - began > maxSlowMs) break;
      await this.#make(step, lateEndMs);
      made += 1;
      isDown = this.#end.isDown;
    }
    const suspects = isDown ? others.slice(Math.max(0, made - maxRepeated), made) : [];
    for (const step of [...suspects, ...earlier.slice(-maxRepeated)]) {
      if (await this.#repeat(step, endRepetitions + 1)) return true;
      if (!this.isReachable) break;
    }
    return false;
  }

  /** Makes a hostile request again, each time with a server that was just started; gives whether it was down after each. */
  async #repeat(step: Step, times: number): Promise<boolean> {
    for (let left = times; left > 0; left -= 1) {
      await this.#start();
      await this.#make(step, repeatedLateEndMs);
      if (!this.isReachable || !this.#end.isDown) return false;
    }
    return true;
  }

  /** Asks once more what the server lists, in the session of the calls. */
  async #relist(): Promise<void> {
    if (this.#session === undefined || this.#session.client.isLost) return;
    const { client, capabilities } = this.#session;
    await this.#prober.probe("relist", async () => {
      await this.#prober.list(client, "tools/list");
      if (capabilities["prompts"] !== undefined) await this.#prober.list(client, "prompts/list");
    });
    if (client.isLost && !this.#isExplained) this.#isExplained = await this.#isLateEnd(this.#earlier);
  }
}

/**
 * A hostile request whose other arguments are those of an ordinary one that succeeded, of the same action if there is one, and with most
 * arguments the same, unless one with all the same succeeded: a tool that refuses these looks at nothing else. Its action stays.
 */
function withArgumentsThatWorked(hostile: Planned, worked: readonly Planned[]): Planned {
  const { attack, args } = hostile;
  if (attack === undefined || args === undefined) return hostile;
  const sameAction = worked.filter((each) => actionIn(each) === actionIn(hostile));
  const isNamed = Object.keys(args).some(isAction);
  // What one of several objects has does not fit another one.
  const usable = sameAction.length > 0 ? sameAction : isNamed ? worked : [];
  const known = usable.map((each) => asObject(each.args) as JsonObject);
  const others = (from: JsonObject) =>
    Object.entries(from)
      .filter(([name]) => !isAttacked(attack, name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const wanted = JSON.stringify(others(args));
  if (known.some((each) => JSON.stringify(others(each)) === wanted)) return hostile;
  const likeness = (from: JsonObject): number =>
    others(from).filter(([name, value]) => JSON.stringify(value) === JSON.stringify(args[name])).length;
  const [best = {}] = known.toSorted((a, b) => likeness(b) - likeness(a));
  const taken = others(best).filter(([name]) => !isAction(name) || !Object.hasOwn(args, name));
  return { ...hostile, args: { ...args, ...Object.fromEntries(taken) } };
}

/** Which of the things that a tool does a request is for; undefined: it does one, or is no tool. */
function actionIn(planned: Planned): string | undefined {
  return "tool" in planned ? planned.action : undefined;
}

/** Whether a hostile text stands in an argument, also inside it. */
function isAttacked({ parameter }: Attack, name: string): boolean {
  return parameter === name || [".", "["].some((sign) => parameter.startsWith(`${name}${sign}`));
}

/** The action and the argument of a hostile request, and its aim, as a key of maps. */
function sortOf({ planned }: Step): string {
  return JSON.stringify([actionIn(planned), planned.attack?.parameter, planned.attack?.aim]);
}

/**
 * Ordinary requests; then hostile ones, the first of each aim and parameter before the second of any, so that there are some of each where the
 * time ends; those of great size last, since they may end the server.
 */
function inOrder(steps: readonly Step[]): readonly Step[] {
  const aimOf = ({ planned }: Step): string | undefined => planned.attack?.aim;
  const turns = [
    ...Map.groupBy(
      steps.filter((step) => aimOf(step) !== undefined && aimOf(step) !== "size"),
      sortOf,
    ).values(),
  ].flatMap((group) => group.map((step, turn) => ({ step, turn })));
  return [
    ...steps.filter((step) => aimOf(step) === undefined),
    ...turns.toSorted((a, b) => a.turn - b.turn).map(({ step }) => step),
    ...steps.filter((step) => aimOf(step) === "size"),
  ];
}

/** Starts the server once more among the files that requests of all sorts have left, and asks what it lists. */
async function probeLaterStart(prober: Prober, working: readonly Planned[]): Promise<void> {
  const session = working.length === 0 ? undefined : await startAndList(prober);
  if (session === undefined) return;
  const { client, server } = session;
  await prober.probe("all-tools", async () => {
    for (const { method, params } of working.map(requestOf))
      if (!client.isLost) await requestOrPing(client, method, params);
  });
  await server.stop();
  const later = await prober.probe("later-start", async () => {
    const made = await prober.connect({ asksBack: true });
    await prober.listAll(made);
    return made;
  });
  await later?.server.stop();
}

/** What a client was given as lists. */
interface ListedAs {
  readonly listing: JsonObject;
  readonly finished: number;
}

/** What the probes of a name were given. */
function listedIn({ probes }: CheckView, name: ProbeView["probe"]): readonly ListedAs[] {
  return probes.flatMap(({ probe, exchanges, finished }) =>
    probe === name ? { listing: listingOf(readSurface(exchanges)), finished } : [],
  );
}

/** Rules about what a server does, each with what shows it. */
export const securityRules = {
  "security/secret-shown": {
    severity: "error",
    title: "A planted secret is in what the server says",
    why: "Whatever a server says reaches the model, the provider of the model, and the logs of the client.",
    fix: "Give tools only the variables and files that they need, and leave secrets out of results, errors and logs.",
    bad: `→ tools/call status { }   ← "AWS_SECRET_ACCESS_KEY=…"`,
    good: `→ tools/call status { }   ← "connected"`,
    source: "https://owasp.org/www-project-mcp-top-10/",
    weakness: { owasp: "MCP01", cwe: 200 },
    *find(view) {
      const seen = new Set<string>();
      // What a tool says in the session of all tools it said before, in one of its own.
      for (const probe of attributed(view)) {
        for (const { seq, text, where } of saidIn(probe)) {
          const places = [...canariesIn(text), ...ownSecretsIn(text)].filter(
            (place) => !isAskedFor(place, probe),
          );
          const said = `${where} has the secret of ${places.join(", ")}`;
          const key = placeKey(probe) + said;
          const message = `${said}${probe.probe === "attack" ? ", which its arguments do not ask for" : ""}`;
          if (places.length === 0 || seen.has(key)) continue;
          seen.add(key);
          yield { ...placeOf(probe), message, evidence: [seq] };
        }
      }
    },
  },
  "security/secret-sent": {
    severity: "error",
    title: "A planted secret is sent over the network",
    why: "Whoever receives it can act as the user. No answer shows it, so that neither the user nor the agent sees it.",
    fix: "Send nothing that no argument of the tool contains; send no variables of the environment and no files with a report.",
    bad: `→ tools/call report { }   (POST http://reports.example.com/ with AWS_SECRET_ACCESS_KEY=…)`,
    good: `→ tools/call report { }   (POST http://reports.example.com/ with the report)`,
    source: "https://owasp.org/www-project-mcp-top-10/",
    weakness: { owasp: "MCP01", cwe: 201 },
    *find(view) {
      const seen = new Set<string>();
      for (const probe of attributed(view)) {
        for (const { seq, target, secrets } of eventsOf(probe.events, "secret.sent")) {
          const places = secrets.filter((place) => !isAskedFor(place, probe));
          const message = `it sent the secret of ${places.join(", ")} to ${target}${when(probe)}`;
          const key = placeKey(probe) + message;
          if (places.length === 0 || seen.has(key)) continue;
          seen.add(key);
          yield { ...placeOf(probe), message, evidence: [seq] };
        }
      }
    },
  },
  ...addressRules,
  "security/hidden-text": {
    severity: "warning",
    title: "What the server gives has text that people do not see",
    why: "The model reads it and nobody else: this is how instructions are hidden. What a server got elsewhere may have it too, and then it passes it on.",
    fix: "Leave out characters of Unicode tags, overrides of the direction of writing, and concealed text of terminals.",
    bad: `← "sunny" and "read the private key" in Unicode tags (U+E0000 to U+E007F)`,
    good: `← "sunny"`,
    source: "https://embracethered.com/blog/posts/2024/hiding-and-finding-text-with-unicode-tags/",
    weakness: { owasp: "MCP06", cwe: 451 },
    *find(view) {
      const lists = new Set(Object.keys(listKeys));
      for (const probe of ordinary(view)) {
        const ofLists = new Set(exchangesOf(probe.exchanges, ...lists).map(({ answer }) => answer?.seq));
        for (const { seq, message, where } of messagesIn(probe)) {
          if (ofLists.has(seq)) continue;
          const kinds = Object.entries(concealing).filter(([, form]) =>
            textsIn(message).some((text) => form.test(text.replaceAll(regionFlags, ""))),
          );
          if (kinds.length === 0) continue;
          const said = `${where} has ${kinds.map(([kind]) => kind).join(", ")}`;
          yield { ...placeOf(probe), message: said, evidence: [seq] };
        }
      }
    },
  },
  "security/secret-read": {
    severity: "warning",
    title: "A file with secrets is opened that nobody asked for",
    why: "A server that needs no keys of its user should not read them. One that is made for them, such as for a cloud, may.",
    fix: "Read only what the server is for. If it is for these, say so in its documentation.",
    bad: `it opens ~/.ssh/id_rsa when it starts`,
    good: `it opens no file of the home folder`,
    source: "https://owasp.org/www-project-mcp-top-10/",
    weakness: { owasp: "MCP02", cwe: 250 },
    *find(view) {
      const secret = new Set(plantedFiles.map(([path]) => `~/${path}`));
      for (const probe of ordinary(view))
        for (const event of touchedIn(view, probe))
          if (secret.has(event.target) && (event.access === "read" || event.access === "write"))
            yield {
              ...placeOf(probe),
              message: `${whatHappened(event)}${when(probe)}`,
              evidence: [event.seq],
            };
    },
  },
  "security/read-only": {
    severity: "error",
    title: "A tool that is annotated readOnlyHint: true changes something",
    why: "Clients call such tools without asking the user.",
    fix: "Set readOnlyHint: false, or change nothing.",
    bad: `readOnlyHint: true   → tools/call count { }   (writes counter.json)`,
    good: `readOnlyHint: false`,
    source: "MCP 2025-11-25, schema: ToolAnnotations.readOnlyHint: the tool does not modify its environment",
    weakness: { owasp: "MCP03", cwe: 451 },
    *find(view) {
      for (const { probe, events } of annotated(view, "readOnlyHint", true)) {
        const change = events.find(
          ({ access, target }) =>
            (access === "write" || access === "delete") &&
            !isOwnState(target) &&
            // It makes the folder of what it keeps.
            !events.some((each) => each.target.startsWith(`${target}/`) && isOwnState(each.target)),
        );
        if (change !== undefined) yield aboutAccess(probe, change);
      }
    },
  },
  "security/destructive": {
    severity: "error",
    title: "A tool that is annotated destructiveHint: false deletes something",
    why: "Clients warn users of destructive tools only.",
    fix: "Set destructiveHint: true, or delete nothing.",
    bad: `destructiveHint: false   → tools/call tidy { }   (deletes notes.txt)`,
    good: `destructiveHint: true`,
    source:
      "MCP 2025-11-25, schema: ToolAnnotations.destructiveHint: false: the tool performs only additive updates",
    weakness: { owasp: "MCP03", cwe: 451 },
    *find(view) {
      for (const { probe, events } of annotated(view, "destructiveHint", false)) {
        const changes = events.filter(({ by }) => by === "comparison");
        // What is at another place now was moved.
        const written = new Set(changes.flatMap(({ access, sha256 }) => (access === "write" ? sha256 : [])));
        const deleted = changes.find(({ access, sha256 }) => access === "delete" && !written.has(sha256));
        if (deleted !== undefined) yield aboutAccess(probe, deleted);
      }
    },
  },
  "security/open-world": {
    severity: "error",
    title: "A tool that is annotated openWorldHint: false goes to the network",
    why: "Clients take its results for those of a closed system, and let it see what must not leave the machine.",
    fix: "Set openWorldHint: true, or stay on the machine.",
    bad: `openWorldHint: false   → tools/call convert { }   (connects to 203.0.113.7:443)`,
    good: `openWorldHint: true`,
    source: "MCP 2025-11-25, schema: ToolAnnotations.openWorldHint",
    weakness: { owasp: "MCP03", cwe: 451 },
    *find(view) {
      for (const { probe, events } of annotated(view, "openWorldHint", false)) {
        const request = events.find(
          ({ access, target }) =>
            access === "resolve" || (access === "connect" && !/^(?:127\.|\[::1\])/.test(target)),
        );
        if (request !== undefined) yield aboutAccess(probe, request);
      }
    },
  },
  "security/idempotent": {
    severity: "warning",
    title: "A tool that is annotated idempotentHint: true does more when it is called again",
    why: "Clients repeat such calls after a time-out, and then the work is done twice.",
    fix: "Set idempotentHint: false, or let a second call with the same arguments change nothing.",
    bad: `idempotentHint: true   → tools/call add { "n": 1 } twice   (the second adds a second line)`,
    good: `idempotentHint: false`,
    source: "MCP 2025-11-25, schema: ToolAnnotations.idempotentHint",
    weakness: { owasp: "MCP03", cwe: 451 },
    *find(view) {
      let before = "";
      for (const { probe, events } of annotated(view, "idempotentHint", true)) {
        if (probe.call?.attack !== undefined) continue;
        const call = JSON.stringify(probe.call);
        const isRepeated = call === before;
        before = call;
        if (!isRepeated) continue;
        const change = events.find(({ by }) => by === "comparison");
        if (change !== undefined) yield aboutAccess(probe, change);
      }
    },
  },
  "security/client-dependent": {
    severity: "warning",
    title: "What the server lists depends on the name of the client",
    why: "A server can show a reviewer one description, and the agent of a user another one.",
    fix: "List the same for every client.",
    bad: `clientInfo.name "claude-ai"   ← a tool with another description`,
    good: `the same list for every clientInfo`,
    source: "https://invariantlabs.ai/blog/mcp-security-notification-tool-poisoning-attacks",
    weakness: { owasp: "MCP03", cwe: 345 },
    *find(view) {
      const [starts, others] = [listedIn(view, "start"), listedIn(view, "other-client")];
      const [[first], [other]] = [starts, others];
      if (first === undefined || other === undefined) return;
      // What differs for one client, too, is reported by stability/start.
      const differing = variablePlaces(starts, others);
      const found = differences(first.listing, other.listing, "what the client mcpvals gets", [
        other.finished,
      ]);
      for (const each of found) if (!differing.has(JSON.stringify(each.place))) yield each;
    },
  },
  "security/changed-after-calls": {
    severity: "error",
    title: "A definition changes after a call, or at the next start",
    why: "A user approves the definition that is there first; what an agent reads later was approved by nobody.",
    fix: "Keep definitions as they are, whatever was called before.",
    bad: `→ tools/list   → tools/call sum { }   → tools/list   ← sum has another description`,
    good: `the definition of sum stays the same`,
    source: "https://invariantlabs.ai/blog/mcp-security-notification-tool-poisoning-attacks",
    weakness: { owasp: "MCP03", cwe: 494 },
    *find(view) {
      let before: ProbeView | undefined;
      for (const probe of view.probes) {
        if (probe.probe === "start") before = probe;
        if (probe.probe !== "relist" || before === undefined) continue;
        const [old = {}, now = {}] = [before, probe].map(({ exchanges }) =>
          listingOf(readSurface(exchanges)),
        );
        yield* differences(keptOf(old, now), keptOf(now, old), "the list before the calls", [probe.finished]);
      }
      const [starts, [later]] = [listedIn(view, "start"), listedIn(view, "later-start")];
      const [first] = starts;
      if (first === undefined || later === undefined) return;
      const differing = variablePlaces(starts);
      const [old, now] = [first.listing, later.listing];
      const than = "a start before the calls of its tools";
      for (const each of differences(keptOf(old, now), keptOf(now, old), than, [later.finished]))
        if (!differing.has(JSON.stringify(each.place))) yield each;
    },
  },
  "security/path-escape": escape(["read"], {
    title: "A path leads out of the folder that it is limited to",
    why: "What refuses other paths can be made to give away any file all the same.",
    fix: "Resolve the path with its links, and compare it with the folder and a separator after it.",
    bad: `→ { "path": "../../home/.ssh/id_rsa" }   ← the private key`,
    good: `→ { "path": "../../home/.ssh/id_rsa" }   ← { "isError": true, … "outside of the folder" }`,
    source: "CVE-2025-53109, CVE-2025-53110",
    weakness: { owasp: "MCP05", cwe: 22 },
  }),
  "security/any-path": anything(["read"], {
    title: "Any path is taken",
    why: "Whoever steers the agent, such as a page that it reads, gets every file that the server can read. That may be what it is for.",
    fix: "Limit it to folders that the user names, or run it in a sandbox that sees no more.",
    bad: `→ { "path": "/home/user/.ssh/id_rsa" }   ← the private key`,
    good: `→ { "path": "/home/user/.ssh/id_rsa" }   ← { "isError": true, … "outside of the folder" }`,
    source: "CVE-2025-53109, CVE-2025-53110",
    weakness: { owasp: "MCP02", cwe: 22 },
  }),
  "security/command-injection": escape(["command", "code"], {
    title: "A part of an argument runs as a command",
    why: "Whoever steers the agent, such as a page that it reads, runs programs with the rights of the user.",
    fix: "Start programs with a list of arguments, and without a shell; refuse values that begin with `-`, or put `--` before them.",
    bad: `exec("git log " + ref)   → { "ref": "main; touch ~/created" }   (the file ~/created is there)`,
    good: `execFile("git", ["log", "--", ref])`,
    source: "CVE-2025-53967, CVE-2025-68144",
    weakness: { owasp: "MCP05", cwe: 78 },
  }),
  "security/any-command": anything(["command", "code"], {
    title: "Any command or code is run",
    why: "Whoever steers the agent, such as a page that it reads, runs programs with the rights of the user. That may be what it is for.",
    fix: "Limit it to the commands that are needed, or run it in a sandbox.",
    bad: `→ { "command": "touch ~/created" }   (the file ~/created is there)`,
    good: `→ { "command": "touch ~/created" }   ← { "isError": true, … "only git is allowed" }`,
    source: "https://owasp.org/www-project-mcp-top-10/",
    weakness: { owasp: "MCP05", cwe: 94 },
  }),
  "security/request-escape": escape(["request"], {
    title:
      "Addresses of this machine, of a private network or of a cloud's metadata are refused, and reached all the same",
    why: "Services that trust this machine or its network, and the credentials of a machine in a cloud, can be reached.",
    fix: "Resolve the name, compare the address with the private ranges, and connect to that address.",
    bad: `→ { "url": "http://2130706433/" }   (connects to 127.0.0.1)`,
    good: `→ { "url": "http://2130706433/" }   ← { "isError": true, … }`,
    source: "https://owasp.org/www-community/attacks/Server_Side_Request_Forgery",
    weakness: { owasp: "MCP05", cwe: 918 },
  }),
  "security/any-address": anything(["request"], {
    title: "This machine, a private network, or the metadata of a cloud is reached",
    why: "Services that trust this machine or its network, and the credentials of a machine in a cloud, can be reached. On the machine of its user that may be what it is for.",
    fix: "Refuse loopback, private and link-local addresses, or say in the documentation that they are reached.",
    bad: `→ { "url": "http://169.254.169.254/latest/meta-data/" }   (connects there)`,
    good: `→ { "url": "http://169.254.169.254/latest/meta-data/" }   ← { "isError": true, … }`,
    source: "https://owasp.org/www-community/attacks/Server_Side_Request_Forgery",
    weakness: { owasp: "MCP05", cwe: 918 },
  }),
  "security/sql-injection": escape(["sql"], {
    title: "A part of an argument runs as SQL",
    why: "Whoever steers the agent reads and changes the whole database.",
    fix: "Use parameters of the statement.",
    bad: "db.exec(`SELECT * FROM notes WHERE title = '${title}'`)",
    good: `db.prepare("SELECT * FROM notes WHERE title = ?").all(title)`,
    source: "https://owasp.org/www-community/attacks/SQL_Injection",
    weakness: { owasp: "MCP05", cwe: 89 },
  }),
  "security/any-sql": anything(["sql"], {
    title: "Any SQL is run, also such that makes files",
    why: "Whoever steers the agent changes the database, and other files. That may be what it is for.",
    fix: "Open the database for reading only, and forbid ATTACH.",
    bad: `→ { "sql": "ATTACH DATABASE '/home/user/created' AS a; CREATE TABLE a.t (x)" }   (the file /home/user/created is there)`,
    good: `→ { "sql": "ATTACH …" }   ← { "isError": true, … "not authorized" }`,
    source: "https://owasp.org/www-community/attacks/SQL_Injection",
    weakness: { owasp: "MCP05", cwe: 89 },
  }),
  "security/template-injection": escape(["template"], {
    title: "A part of an argument is worked out as a template",
    why: "In most template languages that ends in running code.",
    fix: "Give texts to a template as values, never as the template.",
    bad: `→ { "name": "{{ 6 * 7 }}" }   ← "Hello 42"`,
    good: `→ { "name": "{{ 6 * 7 }}" }   ← "Hello {{ 6 * 7 }}"`,
    source: "https://portswigger.net/research/server-side-template-injection",
    weakness: { owasp: "MCP06", cwe: 1336 },
  }),
  "security/denial": {
    severity: "error",
    title: "A hostile argument ends the server, or leaves it without answers",
    why: "Whoever steers the agent, such as a page that it reads, takes the server away from everyone who uses it.",
    fix: "Limit how long and how deep arguments may be, and answer with isError: true where a tool cannot do its work.",
    bad: `→ tools/call parse { "text": "aaaa…" }   (the process exits)`,
    good: `→ tools/call parse { "text": "aaaa…" }   ← { "isError": true, … "text is longer than 10000 characters" }`,
    source: "https://cwe.mitre.org/data/definitions/770.html",
    weakness: { cwe: 770 },
    *find(view) {
      // What ends the server in any case is reported by call/crash and read/crash, or as a hang.
      const frail = new Set(
        ordinary(view).flatMap((probe) => (lossIn(probe) === undefined ? [] : placeKey(probe))),
      );
      for (const [planned, probes] of Map.groupBy(view.probes, plannedIn)) {
        const [first] = probes;
        if (first === undefined || planned?.attack === undefined || frail.has(placeKey(first))) continue;
        // A late end of one that was not repeated by itself may be recorded in the next probe.
        const judged = (lossIn(first) === undefined ? probes.slice(1) : probes).slice(-(endRepetitions + 1));
        const losses = judged.flatMap((probe) => lossIn(probe) ?? []);
        const [loss] = losses;
        // If a server that was just started goes on after the same request, it ended for another reason.
        if (loss === undefined || losses.length < Math.max(2, judged.length)) continue;
        const place = { ...placeOf(first).place, parameter: planned.attack.parameter };
        const message = `after ${planned.attack.form} ${loss.how}, ${losses.length} times`;
        yield { place, message, evidence: losses.flatMap(({ evidence }) => evidence) };
        frail.add(placeKey(first));
      }
    },
  },
  "security/profile": {
    severity: "error",
    title: "The server touches more than the committed profile",
    why: "A new version that reads, starts or reaches what the old one did not should be seen in review.",
    fix: "If the change is wanted, write the snapshot again with --update.",
    bad: `the profile has no addresses, and the server connects to 203.0.113.7:443`,
    good: `both have the same`,
    source: "the file that --snapshot names",
    weakness: { owasp: "MCP04", cwe: 829 },
    *find(view) {
      const { profile: known } = view.spec;
      if (known === undefined) return;
      // One that was made without strace has no reads, programs and connections.
      const profile = profileOf(view, known.watched);
      if (profile === undefined) return;
      for (const part of partsOf(profile)) {
        const { kind: of, name, touched } = part;
        const list = of === undefined ? {} : known[calledKinds[of]];
        // An older profile says nothing of prompts and resources.
        if (list === undefined) continue;
        const was = Object.hasOwn(list, name) ? list[name] : undefined;
        for (const kind of kinds)
          for (const target of touched[kind]) {
            if (known.start[kind].includes(target) || was?.[kind].includes(target) === true) continue;
            const witness = witnessIn(view, part, kind, target);
            yield {
              ...(of === undefined ? {} : { place: { [of]: name } }),
              message: `${kind}: ${target} is not in the profile`,
              evidence: witness === undefined ? [] : [witness.seq],
            };
          }
      }
    },
  },
  "security/not-watched": {
    severity: "info",
    title: "Not all that the server touches was seen",
    why: "Nothing is known about what was not seen.",
    fix: "Check a program, on Linux with bubblewrap, strace and iproute2.",
    bad: `strace is not installed`,
    good: `strace is installed`,
    source: "docs/security-checks.md",
    *find({ spec, probes }) {
      if (spec.notWatched !== undefined)
        yield { message: spec.notWatched, evidence: probes.slice(0, 1).map(({ started }) => started) };
    },
  },
  "security/not-tried": {
    severity: "warning",
    title: "Something that the server lists was not tried, or not wholly",
    why: "Nothing is known about what it does: a tool that refuses all calls of a check may be unsafe in those of an agent.",
    fix: "Give an example in the input schema of what could not be called with success. Give the server what it works with: a file or folder as an argument, an environment variable with -e NAME=VALUE, a service.",
    bad: `{ "name": { "type": "string" } }   (each name that was made up is refused)`,
    good: `{ "name": { "type": "string", "examples": ["weekly report"] } }`,
    source: "docs/security-checks.md",
    *find(view) {
      const { spec, probes, surface } = view;
      if (spec.confined !== true) return;
      const evidence = probes.slice(0, 1).map(({ started }) => started);
      const callables = callablesOf(surface);
      const tried = new Set(probes.map(plannedIn));
      // Those of great size come last, and are left out only where a tool is given up.
      const last = [...(spec.calls ?? []), ...(spec.reads ?? [])]
        .filter(isHostile)
        .map((planned) => [JSON.stringify(placeOfPlanned(planned)), planned] as const);
      const left = [...new Map(last).values()].filter((planned) => !tried.has(planned));
      for (const [kind, what] of Object.entries(kindNames) as [CalledKind, string][]) {
        // Tools without arguments are called, too.
        const names =
          kind === "tool"
            ? surface.tools.flatMap(({ name, definition }) =>
                actionsOf(asObject(definition["inputSchema"]) as JsonObject).map(({ action }) =>
                  actionName(name, action),
                ),
              )
            : callables.filter((each) => each.kind === kind).map(({ name }) => name);
        const namesIn = (of: readonly ProbeView[]): ReadonlySet<string> =>
          new Set(
            of.flatMap((probe) => {
              const name = placeOf(probe).place?.[kind];
              return name === undefined ? [] : actionName(name, probe.call?.action);
            }),
          );
        const called = namesIn(probes);
        const worked = namesIn(workingProbes(view));
        const uncalled = names.filter((name) => !called.has(name));
        const failing = names.filter((name) => called.has(name) && !worked.has(name));
        if (uncalled.length > 0)
          yield {
            message: `${countOf(uncalled.length, what)} not called: ${firstOf(uncalled)}`,
            evidence,
          };
        const partly = [...new Set(left.flatMap((planned) => placeOfPlanned(planned)[kind] ?? []))].filter(
          (name) => probes.some((probe) => placeOf(probe).place?.[kind] === name),
        );
        if (partly.length > 0)
          yield {
            message: `not all hostile arguments were tried, since calls took too long or the server was lost: ${firstOf(partly)}`,
            evidence,
          };
        if (failing.length > 0)
          yield {
            message: `no call without hostile arguments succeeded in the sandbox, by what the results say, so that what the ${what} does was not seen: ${firstOf(failing)}`,
            evidence,
          };
      }
    },
  },
} as const satisfies RuleTable;

/** How one of the things that a tool does is called in reports. */
function actionName(name: string, action: string | undefined): string {
  return action === undefined ? name : `${name} (${action})`;
}

/** What callables are called in reports. */
const kindNames: Readonly<Record<CalledKind, string>> = {
  tool: "tool",
  prompt: "prompt",
  resource: "resource template",
};

/** The first of some names, and how many more there are. */
function firstOf(names: readonly string[]): string {
  const more = names.length - maxShownNames;
  return `${names.slice(0, maxShownNames).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

const maxShownNames = 10;

/** How a call ended the server, or left it without answers; undefined: it did not. */
function lossIn(
  probe: ProbeView,
): { readonly how: string; readonly evidence: readonly number[] } | undefined {
  const exchange = plannedExchange(probe);
  if (exchange === undefined) return undefined;
  const { seq } = exchange.request;
  const end = endIn(probe);
  if (end !== undefined) return { how: end.how, evidence: [seq, end.seq] };
  if (!isUnanswered(exchange, probe) || answersPing(probe)) return undefined;
  return { how: "the server answered neither it nor a ping", evidence: [seq, probe.finished] };
}

const kinds = ["read", "write", "run", "connect"] as const satisfies readonly (keyof Touched)[];

/** Whether a hostile argument asks for the secret of a place: paths lead to files. */
function isAskedFor(place: string, probe: ProbeView): boolean {
  return plannedIn(probe)?.attack?.aim === "read" && !place.startsWith("$");
}

/** Arguments that ask for something else than a tool does have these aims; texts with the others do nothing by themselves. */
const changing: readonly (Attack["aim"] | undefined)[] = ["command", "code", "sql", "request", "size"];

/** What calls of the tools with an annotation touched that no argument asks for. */
function annotated(
  view: CheckView,
  hint: string,
  value: boolean,
): readonly { readonly probe: ProbeView; readonly events: readonly Access[] }[] {
  const tools = new Set(
    view.surface.tools.flatMap(({ name, definition }) =>
      asObject(definition["annotations"])[hint] === value ? name : [],
    ),
  );
  return view.probes.flatMap((probe) =>
    probe.call !== undefined && tools.has(probe.call.tool) && !changing.includes(probe.call.attack?.aim)
      ? { probe, events: touchedIn(view, probe) }
      : [],
  );
}

/** In a hidden folder of its own in the home folder a server may keep a log, such as `~/.notes-server/calls.log`. */
function isOwnState(target: string): boolean {
  return /^~\/\.(?:config\/|local\/(?:share|state)\/)?[^/]+\/./.test(target) && !foldersOfOthers.test(target);
}

/** Hidden folders of other programs, which have secrets there, or run or obey what is there. */
const foldersOfOthers =
  /^~\/\.(?:ssh|aws|azure|gnupg|kube|docker|npm|cargo|git|mozilla|vscode|cursor|windsurf|claude|codex|gemini|copilot|local\/bin|local\/share\/(?:applications|systemd|keyrings)|config\/(?:autostart|systemd|git|gcloud|gh|fish|google-chrome|chromium|Code|Cursor|Claude|opencode))\//;

/** Text that is there and not shown. */
const concealing: Readonly<Record<string, RegExp>> = {
  "Unicode tags": /[\u{E0020}-\u{E007F}]/u,
  "overrides of the direction of writing": /[\u202D\u202E]/u,
  // oxlint-disable-next-line no-control-regex
  "concealed text of terminals": /\u001B\[(?:\d+;)*8(?:;\d+)*m/u,
};

/** The messages of the server in a probe. */
function* messagesIn({
  events,
}: ProbeView): Iterable<{ readonly seq: number; readonly message: Json; readonly where: string }> {
  for (const event of eventsOf(events, "mcp.message")) {
    if (event.direction !== "server-to-client") continue;
    const { method, error } = asObject(event.message);
    const where = typeof method === "string" ? method : error === undefined ? "a result" : "an error";
    yield { seq: event.seq, message: event.message, where };
  }
}

/** What the server says in a probe: messages, and what it writes to stderr. */
function* saidIn(
  probe: ProbeView,
): Iterable<{ readonly seq: number; readonly text: string; readonly where: string }> {
  for (const { seq, text } of eventsOf(probe.events, "server.stderr")) yield { seq, text, where: "its log" };
  for (const { seq, message, where } of messagesIn(probe))
    yield { seq, text: JSON.stringify(message), where };
}

/** Secrets that mcpvals was given for the server, such as variables: in a record a mark with its name stands in the place of each. */
function ownSecretsIn(text: string): readonly string[] {
  const names = Array.from(text.matchAll(/\[secret:([^[\]]+)\]/g), ([, name = ""]) => name);
  // What only looks like a key may be an example.
  return [...new Set(names.filter((name) => name.replace(/ \d+$/, "") !== unknownKey))].map(
    (name) => `$${name}`,
  );
}
