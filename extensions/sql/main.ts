import { extension } from "./extension.ts";

await extension.serve();
