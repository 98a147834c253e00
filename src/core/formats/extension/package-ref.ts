/** Where an extension comes from. `name` is the package without its version, as `allowedSources` are matched with it. */
export type PackageRef =
  /** `github.com/OWNER/REPO[@VERSION]`, also with `https://` before it. `version` is `latest` when none is written. */
  | {
      readonly kind: "release";
      readonly name: string;
      readonly owner: string;
      readonly repo: string;
      readonly version: string;
    }
  /** `npm:NAME[@VERSION]`; the version may be a range. */
  | { readonly kind: "npm"; readonly name: string; readonly package: string; readonly version: string }
  /** A file or a folder: `./P`, `../P`, `/P`, `~/P`, `file://P`, or any other text with a slash in it. */
  | { readonly kind: "path"; readonly name: string; readonly path: string }
  /** `mcpvals:NAME`: one that comes with mcpvals itself. */
  | { readonly kind: "bundled"; readonly name: string; readonly extension: string };
