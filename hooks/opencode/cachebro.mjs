// The plugin for OpenCode. It registers cachebro's MCP server and commands.
//
// It reports prompts and tool calls to "cachebro hook" in the form of Claude Code's events, so that
// "cachebro undo --prompt last" knows what a prompt did. The hook may shorten a result.
//
// Before a request is sent to the model, the plugin reports the results that are new in the request.
// If earlier results are gone (compacted, cleared, reverted), it also reports the calls whose
// results are left. From this the daemon knows what the model really has.
import { spawn } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join, resolve } from "node:path";

const changing = ["bash", "edit", "write"];
const told = ["read", ...changing];
const helpers = ["title", "summary", "compaction"]; // their requests are not the session's
const patience = 5000; // ms

// program returns the path of cachebro in PATH, or else of the one that npm installed with this
// file, or else undefined.
function program() {
  for (const dir of (process.env.PATH || "").split(delimiter)) {
    const file = join(dir || ".", "cachebro");
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {}
  }
  try {
    return createRequire(import.meta.url).resolve(`cachebro-${process.platform}-${process.arch}/bin/cachebro`);
  } catch {
    return undefined;
  }
}

// tell reports an event and returns the hook's answer, or undefined if there is none. The event may
// then have been lost. tell never fails, and never delays OpenCode by more than patience.
function tell(exe, cwd, event) {
  return new Promise((done) => {
    const child = spawn(exe, ["hook", event.hook_event_name, "--client=opencode", "--plugin"], { cwd, stdio: ["pipe", "pipe", "ignore"] });
    let text = "";
    const end = (answer) => {
      clearTimeout(late);
      done(answer);
    };
    const late = setTimeout(() => {
      child.kill();
      end();
    }, patience);
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (more) => (text += more));
    child.on("close", () => {
      try {
        end(JSON.parse(text));
      } catch {
        end();
      }
    });
    child.on("error", () => end());
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify({ ...event, cwd }));
  });
}

// used returns the event of a tool call, in which the file has the field name that Claude Code uses.
function used(name, input, args) {
  return {
    hook_event_name: name,
    session_id: input.sessionID, // a sub-agent's own id; say replaces it with the main session's
    tool_name: input.tool,
    tool_use_id: input.callID,
    tool_input: { ...args, file_path: args?.filePath },
  };
}

// results returns, by id, the tool calls whose results the model gets with a request. It leaves out
// the calls of a failed answer, which are not sent, and cleared calls, which are sent without their
// results.
function results(messages) {
  const all = new Map();
  for (const { info, parts } of messages ?? []) {
    if (info?.error) continue;
    for (const p of parts ?? []) {
      if (p.type === "tool" && p.state?.status === "completed" && !p.state.time?.compacted) all.set(p.callID, p);
    }
  }
  return all;
}

// edits reports whether the options let the provider remove results from a request by itself.
function edits(options) {
  try {
    return /context_?management|clear_tool/i.test(JSON.stringify(options));
  } catch {
    return true;
  }
}

const commands = {
  "cachebro-undo": {
    description: "Undo what the last prompt did to the files",
    template:
      "What would be undone:\n\n!`cachebro undo --prompt last --dry-run $ARGUMENTS`\n\n" +
      'Tell the user in one or two sentences what that would change. Unless it says "nothing to do", carry it out with ' +
      "`cachebro undo --prompt last --yes $ARGUMENTS` and report what was done, and every conflict or loss that it names. Do not use --force.",
  },
  "cachebro-log": {
    description: "What changed in this project, when, and who did it",
    template: "!`cachebro log -n 40 $ARGUMENTS`\n\nSum up for the user what happened to the files, in the order of time: which prompt, command or process changed what.",
  },
  "cachebro-ui": {
    description: "Show the history of this project in a browser",
    template: "Run `cachebro ui` in the background and give the user the address that it prints.",
  },
};

export const Cachebro = async ({ client, directory }) => {
  const exe = program();
  if (!exe) {
    await client?.app?.log({
      body: { service: "cachebro", level: "error", message: "cachebro: the plugin is here, the program is not. To install it: npm install -g cachebro" },
    });
    return {};
  }
  // known holds the ids of the calls whose results were reported, by session. The value is
  // undefined before the first request. A session without an entry begins anew, and nothing counts
  // as shown to it.
  const known = new Map();
  // In OpenCode a sub-agent has its own session. Its work belongs to its parent's prompt.
  const parents = new Map();
  const who = async (session) => {
    let top = session;
    for (let depth = 0; depth < 8; depth++) {
      if (!parents.has(top)) {
        let parent; // stays undefined if the parent cannot be found; the session then counts as a main one
        try {
          parent = (await client.session.get({ path: { id: top } }))?.data?.parentID;
        } catch {}
        if (!parents.has(top)) parents.set(top, parent);
      }
      if (!parents.get(top)) break;
      top = parents.get(top);
    }
    return top === session ? { session_id: session } : { session_id: top, agent_id: session };
  };
  const begin = async (session) => {
    if (!session || known.has(session)) return;
    const by = await who(session);
    const event = by.agent_id ? { hook_event_name: "SubagentStart" } : { hook_event_name: "SessionStart", source: "startup" };
    if (await tell(exe, directory, { ...event, ...by })) known.set(session, undefined);
  };
  const say = async ({ session_id: session, ...event }) => {
    await begin(session);
    if (!known.has(session)) return undefined;
    const answer = await tell(exe, directory, { ...event, ...(await who(session)) });
    if (!answer) known.delete(session);
    return answer;
  };
  // next holds, by session, the request that is about to be sent. Other plugins may still change
  // it, so it is examined at the last moment, when OpenCode asks for its parameters.
  const next = new Map();
  const before = new Map(); // by call: the content of a file before the edit
  const sent = async (session, request) => {
    await begin(session);
    if (!known.has(session)) return;
    const now = results(request.messages);
    const earlier = known.get(session);
    const fresh = earlier ? [...now.values()].filter((p) => !earlier.has(p.callID)) : [];
    const gone = earlier ? [...earlier].some((id) => !now.has(id)) : false;
    if (gone && parents.get(session)) {
      known.delete(session); // a loss in a sub-agent can only be reported as a new start
      await begin(session);
      if (!known.has(session)) return;
    } else if (fresh.length > 0 || gone) {
      const event = {
        hook_event_name: "PostToolBatch",
        session_id: session,
        tool_calls: fresh.map((p) => ({ tool_name: p.tool, tool_use_id: p.callID, tool_input: p.state.input, tool_response: String(p.state.output ?? "") })),
      };
      if (gone) event.alive = [...now.keys()];
      if (!(await say(event))) return;
    }
    known.set(session, new Set(now.keys()));
  };
  return {
    config: async (config) => {
      config.mcp ??= {};
      config.mcp.cachebro ??= { type: "local", command: [exe, "serve"], enabled: true }; // an entry that init wrote stays
      config.command = { ...commands, ...config.command };
    },
    "chat.message": async (input, output) => {
      await begin(input.sessionID);
      if (parents.get(input.sessionID)) return;
      const text = (output.parts ?? []).filter((p) => p.type === "text" && !p.synthetic).map((p) => p.text);
      await say({
        hook_event_name: "UserPromptSubmit",
        session_id: input.sessionID,
        prompt_id: output.message?.id ?? input.messageID,
        prompt: text.join("\n"),
      });
    },
    "tool.execute.before": async (input, output) => {
      if (!changing.includes(input.tool)) return;
      if (input.tool === "edit") {
        try {
          before.set(input.callID, readFileSync(resolve(directory, output.args.filePath), "utf8"));
        } catch {}
      }
      const { permissionDecision, permissionDecisionReason } = (await say(used("PreToolUse", input, output.args)))?.hookSpecificOutput ?? {};
      if (permissionDecision === "deny") {
        before.delete(input.callID);
        throw new Error(permissionDecisionReason);
      }
    },
    "tool.execute.after": async (input, output) => {
      if (!told.includes(input.tool)) return;
      const was = before.get(input.callID);
      before.delete(input.callID);
      const { exit, truncated } = output?.metadata ?? {};
      const answer = await say({
        ...used("PostToolUse", input, input.args),
        tool_response: { output: output?.output, before: was, metadata: { exit, truncated } },
      });
      if (typeof answer?.output === "string" && typeof output?.output === "string") output.output = answer.output;
    },
    "shell.env": async (input, output) => {
      if (input.sessionID && output.env) output.env.CACHEBRO_SESSION = (await who(input.sessionID)).session_id;
    },
    "experimental.chat.messages.transform": async (_, output) => {
      const session = output.messages?.findLast((m) => m.info?.sessionID)?.info.sessionID;
      if (session) next.set(session, output);
    },
    "chat.params": async (input, output) => {
      const agent = input.agent?.name ?? input.agent;
      const request = next.get(input.sessionID);
      if (!request || helpers.includes(agent)) return;
      next.delete(input.sessionID);
      if (edits(output?.options)) known.delete(input.sessionID);
      else await sent(input.sessionID, request);
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID;
      if (event.type !== "session.idle" || !known.has(session)) return;
      before.clear();
      await say({ hook_event_name: parents.get(session) ? "SubagentStop" : "Stop", session_id: session });
      if (parents.get(session)) known.delete(session);
    },
  };
};
