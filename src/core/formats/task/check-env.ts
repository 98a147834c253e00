import { type Expression, parseTemplate } from "../../templates/parse-template.ts";
import type { JsonObject } from "../model.ts";
import { asObject } from "../lenient.ts";
import type { Problem } from "../problem.ts";

/** What values are made of, by what they are: `env.NAME`, or `servers` for the addresses of all servers. */
type Uses = ReadonlyMap<string, readonly string[]>;

const addresses = "servers";

/** Values of `spec.env` that go round in a circle, each circle once. */
export function checkEnvCircles(spec: JsonObject): Problem[] {
  const uses = usesIn(spec);
  const done = new Set<string>();
  return [...uses.keys()].flatMap((start) => {
    const circle = findCircle(start, uses, done);
    if (circle === undefined) return [];
    const name = circle.find((node) => node !== addresses)?.slice("env.".length) ?? "";
    const steps = circle.map((node) => (node === addresses ? "the servers' addresses" : node));
    const shown = steps.length <= 10 ? steps : [...steps.slice(0, 8), "…", ...steps.slice(-1)];
    return [
      {
        code: "config/invalid-value",
        message: `spec.env.${name} goes round in a circle: ${shown.join(" → ")}`,
        path: ["spec", "env", name],
        at: "value",
        hint: "Let one of them stand on its own; a value may use the shell's value of its own name.",
      },
    ];
  });
}

function usesIn(spec: JsonObject): Uses {
  const env = asObject(spec["env"]);
  const nodes = new Set([...Object.keys(env).map((name) => `env.${name}`), addresses]);
  const known = (names: readonly string[]): string[] => names.filter((name) => nodes.has(name));
  const values = Object.entries(env).map(([name, value]): [string, string[]] => {
    const self = `env.${name}`;
    return [self, known(usedBy(value)).filter((used) => used !== self)];
  });
  const urls = Object.values(asObject(spec["servers"])).flatMap((server) => usedBy(asObject(server)["url"]));
  return new Map([...values, [addresses, known(urls).filter((used) => used !== addresses)]]);
}

function usedBy(value: unknown): string[] {
  if (typeof value !== "string") return [];
  return parseTemplate(value, (root) => root === "env" || root === addresses)
    .filter((part): part is Expression => typeof part === "object")
    .flatMap(({ root, names }) => (root === "env" ? names.slice(0, 1).map((name) => `env.${name}`) : [root]));
}

/** A circle that can be reached from a value and was not found before; values are looked at once in all searches. */
function findCircle(start: string, uses: Uses, done: Set<string>): readonly string[] | undefined {
  if (done.has(start)) return undefined;
  const open = [{ node: start, next: 0 }];
  const within = new Map([[start, 0]]);
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const used = uses.get(top.node)?.[top.next];
    top.next += 1;
    if (used === undefined) {
      done.add(top.node);
      within.delete(top.node);
      open.pop();
      continue;
    }
    const begun = within.get(used);
    if (begun !== undefined) {
      for (const { node } of open) done.add(node);
      return [...open.slice(begun).map(({ node }) => node), used];
    }
    if (done.has(used)) continue;
    within.set(used, open.length);
    open.push({ node: used, next: 0 });
  }
  return undefined;
}
