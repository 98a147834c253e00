import type { PermissionPolicy } from "../../core/formats/model.ts";

/** One answer that an agent offers to its question. */
export interface PermissionChoice {
  readonly optionId: string;
  readonly kind: string;
}

export interface PermissionAnswer {
  readonly decision: "allowed" | "denied" | "cancelled";
  /** The option that is chosen; absent: none, which cancels the request. */
  readonly optionId?: string;
}

/**
 * Answers an agent that asks whether it may do something. What is allowed is allowed once where the agent offers that, and
 * what is denied is denied once; where no option says so, the request is cancelled.
 */
export function answerPermission(
  policy: PermissionPolicy,
  options: readonly PermissionChoice[],
  { isMcp }: { readonly isMcp: boolean },
): PermissionAnswer {
  const allowed = policy === "allow" || (policy === "allow-mcp" && isMcp);
  const kinds = allowed ? ["allow_once", "allow_always"] : ["reject_once"];
  const chosen = kinds.flatMap((kind) => options.filter((option) => option.kind === kind)).at(0);
  if (chosen === undefined) return { decision: "cancelled" };
  return { decision: allowed ? "allowed" : "denied", optionId: chosen.optionId };
}
