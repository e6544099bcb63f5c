#!/usr/bin/env node
// Runs the program that the package for this platform brought, in place of this process's own work.
import { spawnSync } from "node:child_process";
import { program } from "../dist/src/index.js";

const { status, signal, error } = spawnSync(program(), process.argv.slice(2), { stdio: "inherit" });
if (error) {
  console.error(`shellkeep: ${error.message}`);
  process.exit(127);
}
if (signal) process.kill(process.pid, signal);
process.exit(status ?? 1);
