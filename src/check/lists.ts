import { shortened } from "../base/visible-text.ts";
import {
  about,
  answerText,
  breakIn,
  type CheckView,
  exchangesOf,
  fixOfLoss,
  givesList,
  handshakesOf,
  itemsOf,
  listMethods,
  methodOf,
  oncePerProblem,
  type ProbeView,
  refusedListText,
  resultOf,
  type RuleTable,
} from "./check-view.ts";
import type { Exchange } from "../trace/trajectory.ts";
import type { Prober } from "./prober.ts";

/** Lists everything once. Then starts a program a second time while it runs, as several windows of a client do. */
export async function probeDefinitions(prober: Prober): Promise<void> {
  const session = await prober.probe("list", async () => {
    const opened = await prober.connect();
    await prober.listAll(opened);
    return opened;
  });
  if (session?.server.transport === "stdio" && !session.client.isLost)
    await prober.probe("second-start", () => prober.connect());
}

/** Rules about the lists of a server, and about its second start. */
export const listRules = {
  "protocol/list-failed": {
    severity: "error",
    title: "A declared list is not given",
    why: "Clients call the list when a session begins, and leave the server out when it fails.",
    fix: "Serve the list, or do not declare the capability.",
    bad: `capabilities: { prompts: {} }   → prompts/list   ← { "error": { "code": -32601, … } }`,
    good: `capabilities: {}`,
    source: "MCP 2025-11-25, lifecycle: capability negotiation",
    *find({ probes, spec }) {
      if (spec.kind !== "definitions") return;
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, ...listMethods)) {
          if (breakIn(probe) !== undefined || givesList(exchange)) continue;
          const found = about(exchange, probe, refusedListText(exchange, probe));
          if (resultOf(exchange) === undefined) yield { ...found, ...fixOfLoss(probe) };
          else if (itemsOf(exchange) === undefined) yield found;
          else yield { ...found, fix: "Give an object for each item of the list." };
        }
    },
  },
  "protocol/endless-list": {
    severity: "error",
    title: "The pages of a list do not end",
    why: "Clients read pages until there is none left.",
    fix: "Leave nextCursor out on the last page.",
    bad: `→ tools/list { "cursor": "a" }   ← { "tools": [], "nextCursor": "a" }`,
    good: `→ tools/list { "cursor": "a" }   ← { "tools": [] }`,
    source: "MCP 2025-11-25, pagination",
    *find(view) {
      for (const { method, pages, last, cursor, probe } of unfinishedLists(view))
        if (pages.some(({ params }) => params["cursor"] === cursor)) {
          const what = `the cursor ${shortened(JSON.stringify(cursor), 60)} comes twice`;
          yield about(last, probe, `${method}: after ${pages.length} pages ${what}`);
        }
    },
  },
  "protocol/long-list": {
    severity: "warning",
    title: "A list has more pages than the check reads",
    why: "What is on the other pages was not looked at. Clients read all pages before a session begins, so that a list which is long, slow or endless keeps their users waiting.",
    fix: "Give more items on a page, and leave nextCursor out on the last one.",
    bad: `→ tools/list { "cursor": "100" }   ← { "tools": [ … ], "nextCursor": "101" }`,
    good: `→ tools/list { "cursor": "2" }   ← { "tools": [ … ] }`,
    source: "MCP 2025-11-25, pagination",
    *find(view) {
      for (const { method, pages, last, cursor, probe } of unfinishedLists(view)) {
        if (pages.some(({ params }) => params["cursor"] === cursor)) continue;
        yield about(
          last,
          probe,
          `${method}: after ${pages.length} pages there is another, and no more were read`,
        );
      }
    },
  },
  "protocol/invalid-cursor": {
    severity: "error",
    title: "The cursor of the next page is not a text",
    why: "Clients that check lists against the schema of MCP, as those of the official SDKs do, lose the whole list.",
    fix: "Leave nextCursor out on the last page.",
    bad: `← { "tools": [ … ], "nextCursor": null }`,
    good: `← { "tools": [ … ] }`,
    source: "MCP 2025-11-25, schema: PaginatedResult.nextCursor",
    *find({ exchanges }) {
      const pages = exchangesOf(exchanges, ...listMethods).map((page) => {
        return { page, seq: page.answer?.seq ?? page.request.seq };
      });
      yield* oncePerProblem(pages, ({ page }) => {
        const cursor = resultOf(page)?.["nextCursor"];
        if (cursor === undefined || typeof cursor === "string") return undefined;
        return `${methodOf(page)} gives the nextCursor ${shortened(JSON.stringify(cursor), 60)}`;
      });
    },
  },
  "protocol/second-start": {
    severity: "warning",
    title: "The server cannot run twice at the same time",
    why: "Each window of a client starts the server once more; only the first gets one that works.",
    fix: "Do not hold a fixed port or lock, or go on without it when it is taken.",
    bad: `server.listen(3333)   (EADDRINUSE ends the second process)`,
    good: `server.listen(0)`,
    source: "boshyxd/robloxstudio-mcp#42, lgazo/drawio-mcp-server#59",
    *find({ probes }) {
      const probe = failedSecondStart(probes);
      const exchange = probe === undefined ? undefined : handshakesOf(probe).at(-1);
      if (probe === undefined || exchange === undefined) return;
      const got = `${methodOf(exchange)} got ${answerText(exchange, probe)}`;
      yield about(exchange, probe, `started while it ran, ${got}`);
    },
  },
} as const satisfies RuleTable;

/** The lists of a check of definitions of which the last page that was read names another. */
function* unfinishedLists({ probes, spec }: CheckView): Iterable<{
  readonly method: string;
  readonly pages: readonly Exchange[];
  readonly last: Exchange;
  readonly cursor: string;
  readonly probe: ProbeView;
}> {
  if (spec.kind !== "definitions") return;
  for (const probe of probes)
    for (const [method, pages] of Map.groupBy(exchangesOf(probe.exchanges, ...listMethods), methodOf)) {
      const last = pages.at(-1);
      const cursor = last === undefined ? undefined : resultOf(last)?.["nextCursor"];
      if (last !== undefined && typeof cursor === "string") yield { method, pages, last, cursor, probe };
    }
}

/** The start of a server that already ran, if that gave no session. */
export function failedSecondStart(probes: CheckView["probes"]): ProbeView | undefined {
  const probe = probes.find((each) => each.probe === "second-start");
  const handshakes = probe === undefined ? [] : handshakesOf(probe);
  return handshakes.some((exchange) => resultOf(exchange) !== undefined) ? undefined : probe;
}
