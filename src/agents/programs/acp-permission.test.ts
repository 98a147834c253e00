import { describe, expect, it } from "vitest";
import type { PermissionPolicy } from "../../core/formats/model.ts";
import { answerPermission } from "../acp.ts";

const options = (...kinds: string[]): { optionId: string; kind: string }[] =>
  kinds.map((kind) => ({ optionId: `id of ${kind}`, kind }));
const all = options("reject_always", "allow_always", "allow_once", "reject_once");

describe("answerPermission", () => {
  it.each<[PermissionPolicy, boolean, ReturnType<typeof options>, string, string | undefined]>([
    ["allow", false, all, "allowed", "allow_once"],
    ["allow", false, options("reject_once", "allow_always"), "allowed", "allow_always"],
    ["allow", true, options("reject_once"), "cancelled", undefined],
    ["allow-mcp", true, all, "allowed", "allow_once"],
    ["allow-mcp", false, all, "denied", "reject_once"],
    ["deny", true, all, "denied", "reject_once"],
    ["deny", true, options("allow_once", "reject_always"), "cancelled", undefined],
    ["allow", true, [], "cancelled", undefined],
  ])("%s (of a server's: %s) of %j is %s by %s", (policy, isMcp, offered, decision, kind) => {
    const chosen = kind === undefined ? {} : { optionId: `id of ${kind}` };
    expect(answerPermission(policy, offered, { isMcp })).toEqual({ decision, ...chosen });
  });
});
