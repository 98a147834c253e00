import { formatKeyPath } from "../json.ts";
import { asObject, asText } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import { partsOf } from "./check-text.ts";
import type { Locals } from "./template-names.ts";
import type { StepView } from "./view-steps.ts";

/** Checks that the address of an `http` step is one, as far as that can be told before it runs. */
export function checkAddress({ kind, body, bodyPath }: StepView, locals: Locals): Problem[] {
  const url = kind === "http" ? asText(asObject(body)["url"]) : undefined;
  const [first] = url === undefined ? [] : partsOf(url, locals);
  if (typeof first !== "string" || /^https?:\/\/./i.test(first) || /^https?:\/\/$/i.test(first)) return [];
  const path = [...bodyPath, "url"];
  const message = `${formatKeyPath(path)} must be a URL that starts with http:// or https://`;
  return [{ code: "config/invalid-value", message, path, at: "value" }];
}
