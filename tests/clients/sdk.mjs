// A small editor on the official TypeScript SDK: one agent process, one session, the steps that it is given.
//
// argv[2] is {command, environment, cwd, capabilities, choose, steps}; a step is one of
//   {do: "new"} {do: "load", session} {do: "resume", session} {do: "list"} {do: "close"}
//   {do: "prompt", text, cancel?, abort?}   cancel and abort name what must have been shown before
//   {do: "mode", id} {do: "option", id, value}
//   {do: "kill", text, once}                prompts, and kills the agent once there is that file
// What came of each step, what was shown, in order, and the exit goes to stdout as one JSON value.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import * as acp from "@agentclientprotocol/sdk";

const told = JSON.parse(process.argv[2]);
const { initialize, session } = acp.methods.agent;
const shown = [];
const waiting = []; // [predicate, resolve]: what a step waits to see

function show(item) {
  shown.push(item);
  for (const [there, resolve] of waiting) if (there(item)) resolve();
}

function choose({ params }) {
  show({ asked: params });
  const option = params.options.find((each) => each.kind === told.choose);
  return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
}

const editor = acp
  .client({ name: "editor" })
  .onRequest(acp.methods.client.session.requestPermission, choose)
  .onRequest(acp.methods.client.fs.readTextFile, async ({ params }) => {
    show({ read: params.path });
    return { content: await readFile(params.path, "utf8") };
  })
  .onRequest(acp.methods.client.fs.writeTextFile, async ({ params }) => {
    show({ written: params.path });
    await writeFile(params.path, params.content);
    return {};
  })
  .onRequest(acp.methods.client.elicitation.create, ({ params }) => {
    show({ form: params });
    return { action: "accept", content: { answer: "blue" } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => show(params.update));

const agent = spawn(told.command[0], told.command.slice(1), {
  cwd: told.cwd,
  env: told.environment,
  stdio: ["pipe", "pipe", "inherit"],
});
const exit = once(agent, "exit");
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

function seen(what) {
  const there = (item) => item.sessionUpdate === what || item.status === what || what in item;
  return new Promise((resolve) => waiting.push([there, resolve]));
}

async function prompt(ctx, sessionId, { text, cancel, abort }) {
  const aborting = new AbortController();
  const moment = cancel || abort ? seen(cancel ?? abort) : undefined;
  const params = { sessionId, prompt: [{ type: "text", text }] };
  const answer = ctx.request(session.prompt, params, { cancellationSignal: aborting.signal });
  answer.catch(() => {}); // it is awaited below, after the moment
  await moment;
  if (cancel) await ctx.notify(session.cancel, { sessionId });
  if (abort) aborting.abort();
  return await answer;
}

let sessionId;

async function act(ctx, step) {
  const opening = { cwd: told.cwd, mcpServers: [] };
  switch (step.do) {
    case "new": {
      const opened = await ctx.request(session.new, opening);
      sessionId = opened.sessionId;
      return opened;
    }
    case "load":
    case "resume":
      sessionId = step.session;
      return await ctx.request(session[step.do], { sessionId, ...opening });
    case "list":
      return await ctx.request(session.list, { cwd: told.cwd });
    case "close":
      return await ctx.request(session.close, { sessionId });
    case "prompt":
      return await prompt(ctx, sessionId, step);
    case "mode":
      return await ctx.request(session.setMode, { sessionId, modeId: step.id });
    case "option":
      return await ctx.request(session.setConfigOption, { sessionId, configId: step.id, value: step.value });
    case "kill": {
      prompt(ctx, sessionId, step).catch(() => {}); // nobody is left to answer it
      while (!existsSync(step.once)) await setTimeout(5);
      return agent.kill("SIGKILL");
    }
    default:
      throw new Error(`no such step: ${step.do}`);
  }
}

const results = await editor.connectWith(stream, async (ctx) => {
  const came = [];
  const hello = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: told.capabilities };
  came.push(await ctx.request(initialize, hello));
  for (const step of told.steps) {
    try {
      came.push(await act(ctx, step));
    } catch (error) {
      came.push({ error: { code: error.code, message: error.message, data: error.data } });
    }
  }
  return came;
});
agent.stdin.end();
const [code, signal] = await exit;
process.stdout.write(JSON.stringify({ results, shown, code, signal }));
