import * as z from "zod";
import { anyObject, closedObject, duration, filledText, httpUrl } from "../config/config-fields.ts";
import {
  networkSchema as network,
  sandboxKind as kind,
  sandboxLimits as limits,
  sandboxParts,
  sandboxSchema as sandbox,
} from "../config/sandbox-schema.ts";
import { asObject } from "../lenient.ts";
import { texts } from "../lenient-fields.ts";

const alias = closedObject({
  package: filledText.meta({
    description:
      "Where it comes from: `github.com/ORG/REPO@VERSION`, `npm:NAME@VERSION`, `mcpvals:NAME`, or a path relative to this file.",
  }),
  config: anyObject.optional().meta({
    description: "Settings that it is started with; texts may have templates of tasks.",
    defaultText: "none",
  }),
  env: texts.optional().meta({
    description: "Variables for its process; texts may have templates of tasks.",
    defaultText: "none",
  }),
  sandbox: sandbox.optional().meta({
    description: "What confines this one.",
    defaultText: "that of all",
  }),
  ...limits("that of all"),
  timeout: duration.optional().meta({
    description: "Longest that one operation may take, for steps that set no `timeout`.",
    defaultText: "that of all",
  }),
}).meta({
  id: "Extension",
  title: "Extension",
  description: "A program that adds steps to tasks: `ALIAS.OPERATION`.",
});

/** A setting, or an extension that goes by its name. */
function settingOr<S extends z.ZodType>(setting: S) {
  return z.union([setting, alias]).optional();
}

/** The settings, each of which may also be an extension of that name. */
const settings = {
  cacheDir: settingOr(filledText).meta({
    description:
      "Folder that fetched extensions are kept in, relative to this file; `~/` is your home folder.",
    defaultText: "`~/.mcpvals/extensions`",
  }),
  timeout: settingOr(duration).meta({
    description: "Longest that one operation may take, for steps that set no `timeout`.",
    defaultText: "`5m`",
  }),
  sandbox: z.union([kind, sandboxParts, alias]).optional().meta({
    description: "What confines all extensions.",
    defaultText: "`none`",
  }),
  network: settingOr(network).meta({
    description: "`[host]` gives confined extensions the network of this machine.",
    defaultText: "no network at all",
  }),
  allowedSources: settingOr(z.array(filledText)).meta({
    description: "Globs of packages without their versions, such as `github.com/ORG/*`; others are refused.",
    defaultText: "any source",
  }),
  releasesUrl: settingOr(httpUrl).meta({
    description: "Base address of the API that lists releases, such as that of a mirror.",
    defaultText: "GitHub's",
  }),
};

/** The keys of the table that are settings for all extensions. */
export const extensionSettings: readonly string[] = Object.keys(settings);

type Shape = z.ZodObject<typeof settings>;

/** TypeScript wants what any key may have to include what the settings have. */
type AnyEntry = z.ZodType<
  z.output<typeof alias> | z.output<Shape>[keyof typeof settings],
  z.input<typeof alias> | z.input<Shape>[keyof typeof settings]
>;

/** The table `extensions` of an eval or a config: settings for all extensions, and extensions by the names that tasks use. */
export const extensionTableSchema = closedObject(settings).catchall<AnyEntry>(alias).meta({
  id: "Extensions",
  title: "Extensions",
  description:
    "The keys listed here are settings for all extensions. Every other key, and any key whose value has a `package`, is the name of an extension.",
});

/** The table as its schema gives it. */
export type ParsedExtensionTable = z.output<typeof extensionTableSchema>;
/** One extension of it. */
export type ParsedExtension = z.output<typeof alias>;

/** Whether an entry of the table is an extension, whatever its key. */
export function isExtensionEntry(value: unknown): value is ParsedExtension {
  return Object.hasOwn(asObject(value), "package");
}
