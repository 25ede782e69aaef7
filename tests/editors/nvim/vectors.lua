--- Folds a vector step by step; returns the first difference from the expected states, or nil.
local reducer = require('deputy.reducer')

local function held(state)
  local agents = reducer.tree(state)
  local have = {
    lastSeq = state.lastSeq,
    agents = agents,
    permissions = state.requests,
    counts = reducer.counts(state),
    plans = state.plans,
    promptQueue = state.promptQueue,
    streaming = state.streaming,
    activities = state.activities,
    details = state.details,
    transcripts = {},
  }
  for _, node in ipairs(agents) do
    have.transcripts[node.agentId] = vim.tbl_map(function(entry)
      return reducer.latest(state, entry)
    end, state.transcripts[node.agentId] or {})
  end
  return have
end

local function difference(expected, state)
  local have = held(state)
  for part, value in pairs(expected) do
    if not vim.deep_equal(value, have[part]) then
      return part .. ': expected ' .. vim.inspect(value) .. '\nheld ' .. vim.inspect(have[part])
    end
  end
end

local function read(path)
  return vim.json.decode(table.concat(vim.fn.readfile(path), '\n'), { luanil = { object = true } }).steps
end

local M = {}

function M.live(path, twice)
  local state = reducer.new()
  for _, step in ipairs(read(path)) do
    for _, event in ipairs(step.events) do
      reducer.apply(state, event)
      if twice then
        reducer.apply(state, vim.tbl_extend('force', event, { type = 'of_another_version' }))
        if event.seq then
          reducer.apply(state, event)
        end
      end
    end
    local differs = difference(step.expected, state)
    if differs then
      return differs
    end
  end
end

--- Loads the session after each step, and then applies the remaining events.
function M.loaded(path)
  local steps = read(path)
  for from, step in ipairs(steps) do
    local at, plans = step.expected, {}
    for id, entries in pairs(at.plans) do
      table.insert(plans, { agentId = id, entries = entries })
    end
    local state = reducer.loaded({
      lastSeq = at.lastSeq,
      agents = at.agents,
      permissions = at.permissions,
      inputs = {},
      transcript = at.transcripts['agent-1'],
      plans = plans,
      promptQueue = at.promptQueue,
    })
    for id, entries in pairs(at.transcripts) do
      reducer.put_transcript(state, id, entries)
    end
    for later = from, #steps do
      for _, event in ipairs(steps[later].events) do
        reducer.apply(state, event)
      end
    end
    local last = steps[#steps].expected
    local differs = difference({
      agents = last.agents,
      transcripts = last.transcripts,
      permissions = last.permissions,
      plans = last.plans,
      promptQueue = last.promptQueue,
    }, state)
    if differs then
      return ('loaded after step %d: %s'):format(from, differs)
    end
  end
end

return M
