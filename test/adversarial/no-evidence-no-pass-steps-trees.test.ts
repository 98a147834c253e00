import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { refusalOf, taskOf, verdictsOf } from "./task-verdicts.ts";

// Claim: steps that only make something are no evidence, however they are put together. docs/tasks.md, "The first task";
// docs/security.md, "A run without evidence never passes".

type Step = Readonly<Record<string, unknown>>;

const real: Step = { command: { run: "test -d ." } };

/** Steps that make something, and looks that do not count. */
const idle = fc.constantFrom<Step>(
  { file: { path: "{workspace}/a", content: "x" } },
  { file: { path: "{workspace}/b", absent: true } },
  { command: { run: "mkdir -p {workspace}/c" } },
  { command: { run: "touch {workspace}/d" } },
  { command: { run: "echo x > {workspace}/e" } },
  { command: { run: "test -d . || true" } },
  { command: { run: "test -d .", continueOnError: true } },
  { command: { run: "test -f nope", continueOnError: true } },
  { command: { run: "test -d .", if: "{env.KIND} == other" } },
  { command: { run: "test -f nope", if: "{env.KIND} == other" } },
);

/** Steps that hold steps; with `mayTurn` also those that turn around what they hold, or need not look at it. */
function treesOf(leaf: fc.Arbitrary<Step>, { mayTurn }: { readonly mayTurn: boolean }): fc.Arbitrary<Step> {
  return fc.letrec<{ tree: Step; steps: Step[] }>((tie) => ({
    steps: fc.array(tie("tree"), { minLength: 1, maxLength: 2 }),
    tree: fc.oneof(
      { maxDepth: 2, withCrossShrink: true },
      leaf,
      tie("steps").map((steps) => ({ allOf: steps })),
      tie("steps").map((steps) => ({ group: { steps } })),
      fc
        .tuple(tie("steps"), idle, idle)
        .map(([steps, before, after]) => ({ group: { setup: [before], steps, cleanup: [after] } })),
      fc
        .tuple(tie("steps"), fc.constantFrom([1], ["a"]))
        .map(([steps, items]) => ({ foreach: { var: "x", in: items, steps } })),
      ...(mayTurn
        ? [
            tie("steps").map((steps) => ({ not: steps })),
            tie("tree").map((step) => ({ not: step })),
            tie("steps").map((steps) => ({ anyOf: steps })),
            tie("steps").map((steps) => ({ group: { setup: [real], steps, cleanup: [real] } })),
          ]
        : []),
    ),
  })).tree;
}

/** The verdicts of tasks, each with one of these as its verify phase; `refused` of those that do not load. */
async function verdicts(phases: readonly (readonly Step[])[]): Promise<readonly string[]> {
  const files = phases.map((verify, index): [string, object] => [
    `t${index}.json`,
    taskOf(`t${index}`, { env: { KIND: "this" }, verify }),
  ]);
  const refusals = await Promise.all(files.map(([name, task]) => refusalOf({ [name]: task })));
  const accepted = files.filter((_, index) => refusals[index] === undefined);
  const ran = accepted.length === 0 ? {} : await verdictsOf(Object.fromEntries(accepted));
  return phases.map((_, index) => (ran[`t${index}`] ?? "refused").replace(/:.*/s, ""));
}

describe("a tree of steps", () => {
  it("of which none is a check is refused, or does not pass", async () => {
    const phase = fc.array(treesOf(idle, { mayTurn: true }), { minLength: 1, maxLength: 2 });
    await fc.assert(
      fc.asyncProperty(fc.array(phase, { minLength: 6, maxLength: 8 }), async (phases) => {
        expect(await verdicts(phases)).not.toContain("pass");
      }),
      { numRuns: 2, endOnFailure: true },
    );
  }, 120_000);

  it("of which one alternative holds whose result does not count is no evidence", async () => {
    const ignored: Step = { command: { run: "test -d .", continueOnError: true } };
    const skipped: Step = { command: { run: "test -d .", if: "{env.KIND} == other" } };
    for (const alternatives of [[ignored], [skipped, ignored], [{ allOf: [skipped] }, ignored]])
      expect(await verdicts([[{ anyOf: alternatives }, skipped]])).not.toContain("pass");
    const failed: Step = { command: { run: "test -f nope", continueOnError: true } };
    expect(await verdicts([[{ not: { anyOf: [failed] } }]])).not.toContain("pass");
  });

  it("of which all have to hold, with a check, passes", async () => {
    const leaf = fc.oneof({ weight: 1, arbitrary: fc.constant(real) }, { weight: 1, arbitrary: idle });
    const tree = treesOf(leaf, { mayTurn: false }).map((step): Step[] => [real, step]);
    await fc.assert(
      fc.asyncProperty(fc.array(tree, { minLength: 4, maxLength: 6 }), async (phases) => {
        expect(await verdicts(phases)).toEqual(phases.map(() => "pass"));
      }),
      { numRuns: 1, endOnFailure: true },
    );
  }, 120_000);
});
