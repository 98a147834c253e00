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
    const circle = findCircle(start, uses, { done, within: [] });
    if (circle === undefined) return [];
    const name = circle.find((node) => node !== addresses)?.slice("env.".length) ?? "";
    const shown = circle.map((node) => (node === addresses ? "the servers' addresses" : node)).join(" → ");
    return [
      {
        code: "config/invalid-value",
        message: `spec.env.${name} goes round in a circle: ${shown}`,
        path: ["spec", "env", name],
        at: "value",
        hint: "Let one of them stand on its own; a value may use the shell's value of its own name.",
      },
    ];
  });
}

function usesIn(spec: JsonObject): Uses {
  const env = asObject(spec["env"]);
  const declared = Object.keys(env);
  const known = (names: readonly string[]): string[] =>
    names.filter((name) => name === addresses || declared.includes(name.slice("env.".length)));
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

interface Search {
  /** What is known to be in no circle that has not been found. */
  readonly done: Set<string>;
  readonly within: readonly string[];
}

function findCircle(node: string, uses: Uses, { done, within }: Search): readonly string[] | undefined {
  const begun = within.indexOf(node);
  if (begun !== -1) return [...within.slice(begun), node];
  if (done.has(node)) return undefined;
  for (const next of uses.get(node) ?? []) {
    const circle = findCircle(next, uses, { done, within: [...within, node] });
    if (circle !== undefined) {
      for (const each of circle) done.add(each);
      done.add(node);
      return circle;
    }
  }
  done.add(node);
  return undefined;
}
