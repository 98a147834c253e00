import type { RunFinding } from "../model/finding.ts";

/** The columns of the table: clients by what their names begin with. */
const clientColumns = ["Claude", "Cursor", "VS Code", "Gemini", "OpenAI", "Codex"];

/** `ok`: no rule says otherwise. `invalid`: what the client does is not known, but others refuse it for an error. */
export type ClientCell = "ok" | "refused" | "changed" | "invalid";

/** What known clients do with a tool. */
export interface ClientRow {
  readonly tool: string;
  readonly effects: Readonly<Record<string, ClientCell>>;
}

/** The tools that some known client refuses or changes. */
export function clientTable(findings: readonly RunFinding[], naming: boolean): readonly ClientRow[] {
  const known = findings.filter(
    ({ clients, severity, place }) =>
      clients !== undefined && severity !== "info" && place.tool !== undefined,
  );
  const nameOf = ({ server, place }: RunFinding): string =>
    [...(naming ? [server] : []), place.tool ?? ""].join(" › ");
  const broken = new Set(findings.filter(isBrokenDefinition).map(nameOf));
  return [...Map.groupBy(known, nameOf)].map(([tool, group]) => {
    const entries = group.flatMap(({ clients = {} }) => Object.entries(clients));
    const effectOf = (column: string): ClientCell => {
      const effects = entries.filter(([client]) => client.startsWith(column)).map(([, effect]) => effect);
      if (effects.includes("refused")) return "refused";
      return effects[0] ?? (broken.has(tool) ? "invalid" : "ok");
    };
    return { tool, effects: Object.fromEntries(clientColumns.map((column) => [column, effectOf(column)])) };
  });
}

/** Whether what the server lists, which clients read, has an error. */
function isBrokenDefinition({ code, severity }: RunFinding): boolean {
  return severity === "error" && /^(?:definition|schema|client)\//.test(code);
}
