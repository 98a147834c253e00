import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ExecAnswer, ExecCall } from "../../support/kube-exec.ts";
import { type Answered, fails, isError, passes } from "./extension-process.ts";
import { type Served, serveExtension } from "./served.ts";

const running = { state: { running: { startedAt: "2026-01-01T00:00:00Z" } }, ready: true, restartCount: 0 };

describe("exec", () => {
  let served: Served;
  let calls: ExecCall[] = [];
  beforeAll(async () => {
    served = await serveExtension();
    served.api.store.put({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "web", namespace: "shop", labels: { app: "web" } },
      spec: { containers: [{ name: "main" }, { name: "side" }] },
      status: {
        phase: "Running",
        containerStatuses: [
          { name: "main", ...running },
          { name: "side", ...running },
        ],
      },
    });
  });
  afterAll(() => served?.[Symbol.asyncDispose]());
  beforeEach(() => {
    calls = [];
    served.api.speak(["v5.channel.k8s.io", "v4.channel.k8s.io"]);
  });

  function exec(args: object, answer: ExecAnswer, timeout = "20s"): Promise<Answered> {
    served.api.onExec((call) => {
      calls.push(call);
      return answer;
    });
    return served.extension.run(
      "exec",
      { pod: "web", namespace: "shop", ...args },
      { phase: "verify", timeout },
    );
  }

  it("runs a program and gives what it wrote", async () => {
    const answer = { stdout: "grün\n", stderr: "careful\n" };
    const expected = { stdout: "grün", stderr: { contains: "care" } };
    await passes(
      exec({ command: ["cat", "/etc/a b"], expect: expected }, answer),
      `Pod shop/web, container main, ["cat","/etc/a b"]: exit code 0`,
      { stdout: "grün\n", stderr: "careful\n", exitCode: "0" },
    );
    expect(calls).toEqual([
      {
        namespace: "shop",
        pod: "web",
        container: "main",
        command: ["cat", "/etc/a b"],
        stdin: "",
        ended: false,
      },
    ]);
  });

  it("says what was expected and what is there", async () => {
    const expected = { exitCode: 0, stdout: { equals: "a", matches: "^b$" }, stderr: { contains: "c" } };
    const answer = { stdout: "d", stderr: "e", exitCode: 7 };
    expect(await exec({ container: "side", command: "false", expect: expected }, answer)).toEqual({
      success: false,
      message: [
        `Pod shop/web, container side, "false":`,
        "exit code is 7, expected 0",
        `stdout is not "a"`,
        `stdout does not match "^b$"`,
        `stderr does not contain "c"`,
        `stdout: "d"`,
        `stderr: "e"`,
      ].join("\n"),
      outputs: { stdout: "d", stderr: "e", exitCode: "7" },
    });
    expect(calls[0]).toMatchObject({ container: "side", command: ["sh", "-c", "false"] });
    await passes(exec({ command: "false", expect: { exitCode: 7 } }, { exitCode: 7 }));
  });

  it("finds a pod by its labels", async () => {
    const args = { pod: undefined, labelSelector: "app=web", command: ["true"] };
    await passes(exec(args, {}));
    await fails(exec({ ...args, labelSelector: "app=none" }, {}), "there is no pod with app=none");
    await fails(
      exec({ container: "other", command: ["true"] }, {}),
      "Pod shop/web has no container other, only main, side",
    );
  });

  it("writes to standard input and ends it", async () => {
    const stdin = "x".repeat(200_000);
    await passes(exec({ command: ["wc", "-c"], stdin }, { stdout: "200000" }));
    expect(calls[0]).toMatchObject({ stdin, ended: true });
  });

  it("tells when an older server cannot end standard input", async () => {
    served.api.speak(["v4.channel.k8s.io"]);
    await passes(exec({ command: ["head", "-1"], stdin: "a\n" }, { stdout: "a" }));
    expect(calls[0]).toMatchObject({ stdin: "a\n", ended: false });
    expect(served.extension.logs.at(-1)).toContain("cannot end a program's standard input");
  });

  it("takes a program that is not there for a finding, and a broken connection for none", async () => {
    const failure = `exec failed: unable to start container process: exec: "nope": executable file not found in $PATH`;
    await fails(
      exec({ command: ["nope"] }, { failure }),
      `Pod shop/web, container main, ["nope"] could not be run: ${failure}`,
    );
    await isError(
      exec({ command: ["x"] }, { failure: "error dialing backend: no route" }),
      "the program could not be run: error dialing backend: no route",
    );
    await isError(
      exec({ command: ["x"] }, { drop: true }),
      "the connection ended before the program's end was known",
    );
    await isError(
      exec({ command: ["x"] }, { stdout: "y".repeat(5_000_000) }),
      "wrote more than 4194304 bytes to stdout",
    );
    served.api.fault(/exec/, { kind: "status", status: 403, message: "no exec", reason: "Forbidden" });
    await isError(exec({ command: ["x"] }, {}), /may not do this at http\S+: exec answered 403: no exec$/);
    served.api.fault(/./, undefined);
  });

  it("ends with the step's time", async () => {
    await isError(
      exec({ command: ["sleep", "9"] }, { hang: true }, "300ms"),
      "the operation did not end within 300ms",
    );
    await passes(exec({ command: ["true"] }, {}));
  });
});
