import type { Config } from "../core/formats/config/config-schema.ts";

/** Gives the config back as it is; it is there so that editors check and complete it. */
export function defineConfig(config: Config): Config {
  return config;
}
