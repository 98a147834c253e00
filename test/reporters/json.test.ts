import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { resultJsonSchema } from "../../src/core/report/result.ts";
import type { RunResult } from "../../src/core/report/result.ts";
import { visibleJson } from "../../src/core/text/visible-text.ts";
import { reporters } from "../../src/reporters/index.ts";
import { brokenRun, emptyRun, failingRun, interruptedRun, passingRun, variedRun } from "./runs.ts";
import { play, type SampleRun } from "./samples.ts";
import { captureOutput } from "./screen.ts";

async function written(run: SampleRun): Promise<string> {
  const output = captureOutput();
  await play(run, reporters.json(output));
  return output.text();
}

const runs: [string, SampleRun][] = [
  ["passing", passingRun()],
  ["failing", failingRun()],
  ["broken", brokenRun()],
  ["varied", variedRun()],
  ["interrupted", interruptedRun()],
  ["empty", emptyRun()],
];

it.each(runs)("writes only the result of a run that is %s", async (_, run) => {
  const text = await written(run);
  expect(text).toBe(`${JSON.stringify(run.end.result, null, 2)}\n`);
  const validate = new Ajv2020({ strict: true, strictTypes: false }).compile(resultJsonSchema());
  expect(validate(JSON.parse(text)) || validate.errors).toBe(true);
});

it("writes the same JSON as JSON.stringify, safe to print, for any value", async () => {
  const values = fc.dictionary(fc.string(), fc.jsonValue());
  await fc.assert(
    fc.asyncProperty(fc.array(values), values, async (trials, servers) => {
      const run = emptyRun();
      const environment = { ...run.end.result.environment, servers, agents: undefined };
      const result = { ...run.end.result, trials, environment } as unknown as RunResult;
      const text = await written({ ...run, end: { ...run.end, result } });
      expect(text).toBe(`${visibleJson(JSON.stringify(result, null, 2))}\n`);
    }),
  );
});

it("writes nothing before the end of the run, and nothing if it does not end", async () => {
  const output = captureOutput();
  const reporter = reporters.json(output);
  const run = passingRun();
  await reporter.onRunStart?.(run.start);
  for (const trial of run.trials) await reporter.onTrialEnd?.(trial);
  await reporter.close?.();
  expect(output.writes).toEqual([]);
});
