import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import { playTrial, portableTask, taskFolder } from "../support/portable.ts";
import { leaf, leafServer, trialServer } from "../support/sessions.ts";

it("a server that cleanup ends is not an error, one that ends before it is", async () => {
  const endsAt = async (check: number): Promise<string> => {
    const lost = new AbortController();
    const end = (): void => lost.abort(new McpvalsError("server/exited", "it ended"));
    let checks = 0;
    const server = {
      ...trialServer(leafServer(() => undefined)),
      lost: lost.signal,
      checkAlive: () => Promise.resolve((checks += 1) === check ? end() : undefined),
      stop: () => Promise.resolve(end()),
    };
    const task = portableTask({ cleanup: [leaf("c", "pass")] }, { verify: [leaf("v", "pass")] });
    const { finished } = await playTrial(task, { services: { startServer: () => Promise.resolve(server) } });
    return finished.error?.code ?? finished.outcome;
  };
  expect([await endsAt(1), await endsAt(2), await endsAt(3)]).toEqual([
    "server/exited",
    "completed",
    "server/exited",
  ]);
});

it("a difference that an earlier trial left is reported apart until a trial touches it", async () => {
  using folder = taskFolder();
  const services = { compareState: { changes: new Map(), known: new Map() } };
  const task = portableTask({ dir: folder.path }, { turns: [{ user: "Go." }] });
  const leave = async (content: string): Promise<unknown> => {
    const agent = async (): Promise<void> => {
      if (content !== "") writeFileSync(join(folder.path, "left.txt"), content);
    };
    const { events } = await playTrial(task, { agent, services });
    const compared = events.find((event) => event.type === "state.compared");
    if (compared?.type !== "state.compared") throw new Error("the state was not compared");
    return [compared.differences.length, compared.untouched.length];
  };
  expect([await leave("one"), await leave(""), await leave("longer")]).toEqual([
    [1, 0],
    [0, 1],
    [1, 0],
  ]);
});
