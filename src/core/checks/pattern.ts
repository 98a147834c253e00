export { compilePattern } from "../templates/pattern.ts";
