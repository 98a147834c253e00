import manifest from "../../package.json" with { type: "json" };

/** The version of this package. */
export const version: string = manifest.version;

/** The name that it is installed by. */
export const packageName: string = manifest.name;
