import { describe, expect, it } from "vitest";
import { errorCatalogue, type ErrorCode, errorKinds } from "./catalogue.ts";
import { McpvalsError, serializeError } from "./error.ts";

describe("McpvalsError", () => {
  it("is an error with a code, whose kind says who has to act", () => {
    const cause = new Error("ENOENT");
    const error = new McpvalsError("config/not-found", "no config in /x", { hint: "make one", cause });
    expect(error).toBeInstanceOf(Error);
    expect([error.name, error.message, error.code, error.kind, error.cause]).toEqual([
      "McpvalsError",
      "no config in /x",
      "config/not-found",
      "usage",
      cause,
    ]);
    expect(Object.hasOwn(new McpvalsError("run/bailed", ""), "cause")).toBe(false);
  });
});

describe("serializeError", () => {
  it("keeps what a reader needs of our own errors", () => {
    const details = {
      hint: "raise it",
      detail: "stderr",
      cause: new Error("inner"),
      location: { file: "/x" },
    };
    expect(serializeError(new McpvalsError("server/exited", "gone", details))).toEqual({
      code: "server/exited",
      kind: "environment",
      message: "gone",
      hint: "raise it",
      detail: "stderr",
    });
    expect(serializeError(new McpvalsError("trial/timeout", "late"))).toEqual({
      code: "trial/timeout",
      kind: "timeout",
      message: "late",
    });
  });

  it("takes any other error for a bug, and keeps its stack and its causes", () => {
    const inner = new RangeError("inner");
    const outer = new Error("outer", { cause: new Error("middle", { cause: inner }) });
    const { detail = "", ...rest } = serializeError(outer);
    expect(rest).toEqual({ code: "internal/unexpected", kind: "bug", message: "outer" });
    expect(detail).toMatch(
      /^Error: outer\n +at [\s\S]+\ncaused by: Error: middle\n +at [\s\S]+\ncaused by: RangeError: inner\n +at /,
    );
  });

  it("gets to an end with causes that go in a circle", () => {
    const error = new Error("again");
    error.cause = error;
    expect(serializeError(error).detail?.split("caused by: ")).toHaveLength(5);
  });

  it.each([
    ["a text", "a text"],
    [undefined, "undefined"],
    [null, "null"],
    [42, "42"],
    [Symbol("odd"), "Symbol(odd)"],
    [Object.create(null), "something was thrown that cannot be written as text"],
  ])("takes %s, thrown, for a bug too", (thrown, message) => {
    expect(serializeError(thrown)).toEqual({ code: "internal/unexpected", kind: "bug", message });
  });

  it("is plain JSON", () => {
    const error = serializeError(new Error("x"));
    expect(JSON.parse(JSON.stringify(error))).toEqual(error);
  });
});

describe("the catalogue", () => {
  const entries = Object.entries(errorCatalogue) as [ErrorCode, (typeof errorCatalogue)[ErrorCode]][];

  it("knows the kind of every code", () => {
    expect(errorKinds).toEqual(Object.fromEntries(entries.map(([code, { kind }]) => [code, kind])));
  });

  it.each(entries)("says in plain words what %s means and what to do", (code, { title, help }) => {
    expect(code).toMatch(/^[a-z]+\/[a-z]+(-[a-z]+)*$/);
    expect(title).toMatch(/^[A-Z].*[^.]$/);
    expect(help).toMatch(/\.$|\?$/);
  });
});
