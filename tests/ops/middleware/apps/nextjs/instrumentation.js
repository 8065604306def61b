export { register } from "./nextjs-guard.mjs"
