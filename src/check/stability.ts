import { jsonDifferences } from "../expect/json-difference.ts";
import {
  asList,
  asObject,
  exact,
  isJsonObject,
  type Json,
  type JsonObject,
  mapValues,
} from "../base/json.ts";
import { eventsOf } from "../model/event.ts";
import { secretMark, withoutSecretMarks } from "../base/secret-marks.ts";
import type { Exchange } from "../trace/trajectory.ts";
import {
  type CheckView,
  emptyListing,
  type Found,
  givesList,
  listingOf,
  listKeys,
  longInteger,
  methodOf,
  type ProbeView,
  readSurface,
  refusedListText,
  type RuleTable,
} from "./check-view.ts";
import type { FindingPlace } from "../model/finding.ts";
import type { Prober } from "./prober.ts";

export async function probeStability(prober: Prober): Promise<void> {
  const session = await prober.probe("first-listing", async () => {
    const opened = await prober.connect();
    await prober.listAll(opened);
    return opened;
  });
  if (session !== undefined) await prober.probe("second-listing", () => prober.listAll(session));
}

/** Rules about definitions that change from listing to listing, from start to start, or from a committed snapshot. */
export const stabilityRules = {
  "stability/listing": {
    severity: "error",
    title: "Two listings of one session differ",
    why: "Clients keep the first list, so that they call tools that are gone or whose parameters have changed.",
    fix: "List the same until something changes, and announce that with notifications/tools/list_changed.",
    bad: `tools/list: ["a", "b"], then ["b"]`,
    good: `tools/list: ["a", "b"], then ["a", "b"]`,
    source: "MCP 2025-11-25, tools: list changed notification",
    *find(view) {
      const [first, second] = listings(view);
      if (first === undefined || second === undefined || announced(second.probe)) return;
      yield* differences(first.listing, second.listing, "the first listing", second.evidence);
    },
  },
  "stability/start": {
    severity: "warning",
    title: "Definitions differ from start to start",
    why: "What was tested is not what a client gets; caches of prompts do not fit.",
    fix: "Leave times, random values and the order of a set out of definitions.",
    bad: `description: "Started at 10:31:07"`,
    good: `description: "Gives the time at which the server was started"`,
    source: "MCP 2025-11-25, tools: list changed notification",
    *find(view) {
      const [first] = listings(view);
      const { listing } = view.spec;
      if (first === undefined || listing === undefined) return;
      yield* differences(listing, first.listing, "the first start", first.evidence);
    },
  },
  "stability/snapshot": {
    severity: "error",
    title: "Definitions differ from the committed snapshot",
    why: "A change of definitions changes what agents do; it should be seen in review.",
    fix: "If the change is wanted, write the snapshot again with --update.",
    bad: `the snapshot has the tool "search", and the server does not`,
    good: `both have the same definitions`,
    source: "the file that --snapshot names",
    *find(view) {
      const [first] = listings(view);
      const { snapshot } = view.spec;
      if (first === undefined || snapshot === undefined) return;
      // A snapshot is written with marks in the place of secrets, and read as a file from outside.
      const [before, now] = [withEqualMarks({ ...emptyListing, ...snapshot }), withEqualMarks(first.listing)];
      yield* differences(before, now, "the snapshot", first.evidence);
      for (const { message, evidence } of unread(first))
        yield {
          message: `${message}, so that it cannot be compared with the snapshot`,
          evidence,
          fix: "Serve the list, and check again.",
        };
    },
  },
  "stability/not-compared": {
    severity: "warning",
    title: "A list was not given again",
    why: "Clients list again in each session and after a change, and then lack the definitions. The check cannot tell whether they stay the same.",
    fix: "Serve the list as often as it is asked for, within the time that a request may take.",
    bad: `→ tools/list   ← { "tools": […] }   → tools/list   ← { "error": { "code": -32000, "message": "Too many requests" } }`,
    good: `→ tools/list   ← { "tools": […] }   → tools/list   ← { "tools": […] }`,
    source: "MCP 2025-11-25, tools: listing tools",
    *find(view) {
      const { snapshot, listing = emptyListing } = view.spec;
      // The first listing is reported by the snapshot's rule, a list that was never given by protocol/list-failed.
      for (const { incomplete, probe } of listings(view).slice(snapshot === undefined ? 0 : 1)) {
        const again = incomplete.filter((page) => listing[listKeys[methodOf(page)] ?? ""] !== undefined);
        yield* unread({ incomplete: again, probe });
      }
    },
  },
} as const satisfies RuleTable;

/** A listing in which marks of secrets look the same, whether they are mcpvals' own or came from outside. */
function withEqualMarks(listing: JsonObject): JsonObject {
  const json = JSON.stringify(listing);
  return secretMark.test(json) ? (JSON.parse(withoutSecretMarks(json)) as JsonObject) : listing;
}

interface Listing {
  readonly probe: ProbeView;
  /** Without the lists that were not given as a whole. */
  readonly listing: JsonObject;
  readonly incomplete: readonly Exchange[];
  readonly evidence: readonly number[];
}

function listings({ probes }: CheckView): readonly Listing[] {
  return probes
    .filter(({ probe }) => probe === "first-listing" || probe === "second-listing")
    .map((probe) => {
      const surface = readSurface(probe.exchanges);
      const { tools, resources, prompts, incomplete } = surface;
      const evidence = [...new Set([...tools, ...resources, ...prompts].map((item) => item.evidence))];
      // After a loss further lists were not asked for.
      const isWhole = eventsOf(probe.events, "probe.finished")[0]?.outcome === "done";
      return {
        probe,
        listing: isWhole ? listingOf(surface, { exact: true }) : {},
        incomplete,
        evidence: evidence.length === 0 ? [probe.finished] : evidence,
      };
    });
}

/** The lists that a listing lacks. */
function unread({ probe, incomplete }: Pick<Listing, "probe" | "incomplete">): readonly Found[] {
  return incomplete.map((page) => ({
    message: givesList(page)
      ? `${methodOf(page)} has more pages than were read`
      : refusedListText(page, probe),
    evidence: [page.request.seq, page.answer?.seq ?? probe.finished],
  }));
}

function announced({ events }: ProbeView): boolean {
  return events.some(
    (event) =>
      event.type === "mcp.message" && String(asObject(event.message)["method"]).endsWith("/list_changed"),
  );
}

const kinds: readonly (readonly [list: string, kind: keyof FindingPlace, id: string])[] = [
  ["tools", "tool", "name"],
  ["resources", "resource", "uri"],
  ["resourceTemplates", "resource", "uriTemplate"],
  ["prompts", "prompt", "name"],
];

/** Most differences of one definition that are listed. */
const maxDifferences = 20;

/** What differs in the lists that both have, where `than` is the name of the earlier one. */
export function* differences(
  before: JsonObject,
  after: JsonObject,
  than: string,
  evidence: readonly number[],
): Iterable<Found> {
  const { instructions: said } = before;
  const { instructions: says } = after;
  if (typeof said === "string" && typeof says === "string")
    for (const { messageFor } of jsonDifferences(says, said, "equal", 1))
      yield {
        place: { pointer: "/instructions" },
        message: `${messageFor("it")} (compared with ${than})`,
        evidence,
      };
  for (const [list, kind, id] of kinds) {
    if (before[list] === undefined || after[list] === undefined) continue;
    const [old, now] = [byName(before[list], id), byName(after[list], id)];
    for (const name of new Set([...old.keys(), ...now.keys()])) {
      const [was, is] = [old.get(name), now.get(name)];
      // Items without a name cannot be told apart.
      const place = { [kind]: name === "" ? `${list} without ${id}` : name };
      if (was === undefined) yield { place, message: `new: ${than} lacks it`, evidence };
      else if (is === undefined) yield { place, message: `it is gone: only ${than} has it`, evidence };
      else {
        const found = jsonDifferences(
          roundedLike(was, is),
          roundedLike(is, was),
          "equal",
          maxDifferences + 1,
        );
        for (const { pointer, messageFor } of found.slice(0, maxDifferences)) {
          const message = `${messageFor("it")} (compared with ${than})`;
          yield { place: { ...place, ...(pointer === "" ? {} : { pointer }) }, message, evidence };
        }
        if (found.length > maxDifferences)
          yield { place, message: `it has more than ${maxDifferences} differences from ${than}`, evidence };
      }
    }
  }
}

/** The places in which some listings differ from the first one of theirs. */
export function variablePlaces(
  ...all: readonly (readonly { readonly listing: JsonObject }[])[]
): ReadonlySet<string> {
  return new Set(
    all
      .flatMap(([first, ...again]) =>
        again.flatMap((each) => [...differences(first?.listing ?? {}, each.listing, "", [])]),
      )
      .map(({ place }) => JSON.stringify(place)),
  );
}

/** The instructions of a listing, and those of its tools and prompts that another one has, too: what comes and goes is announced, and users see what is new. */
export function keptOf(listing: JsonObject, other: JsonObject): JsonObject {
  const kept = ["tools", "prompts"].map((list) => {
    const names = new Set((asList(other[list]) as JsonObject[]).map(({ name }) => name));
    return [list, (asList(listing[list]) as JsonObject[]).filter(({ name }) => names.has(name))];
  });
  return { ...exact({ instructions: listing["instructions"] }), ...Object.fromEntries(kept) };
}

/**
 * A value in which texts of large integers are numbers where the other value has numbers: a snapshot of an earlier version has rounded
 * ones, and so has a record whose text had a secret.
 */
function roundedLike(other: Json, value: Json): Json {
  if (typeof value === "string")
    return typeof other === "number" && longInteger.test(value) ? Number(value) : value;
  if (Array.isArray(value)) {
    const others = Array.isArray(other) ? (other as readonly Json[]) : [];
    return (value as readonly Json[]).map((item, index) => roundedLike(others[index] ?? null, item));
  }
  if (!isJsonObject(value) || !isJsonObject(other)) return value;
  return mapValues(value, (item, key) => roundedLike(other[key] ?? null, item));
}

function byName(list: Json, id: string): ReadonlyMap<string, JsonObject> {
  const items = Array.isArray(list) ? (list as readonly Json[]).filter(isJsonObject) : [];
  return new Map(items.map((item) => [typeof item[id] === "string" ? item[id] : "", item]));
}
