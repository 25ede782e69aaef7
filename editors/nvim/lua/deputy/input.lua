--- The input area: what is written there is sent, or waits in the queue.

local client = require('deputy.client')
local config = require('deputy.config')
local sessions = require('deputy.session')

local M = {}

local buffer ---@type integer?

local function map(modes, key, action, about)
  if key then
    vim.keymap.set(modes, key, action, { buffer = buffer, desc = 'Deputy: ' .. about })
  end
end

--- The buffer of the input area.
---@return integer
function M.buffer()
  if buffer and vim.api.nvim_buf_is_valid(buffer) then
    return buffer
  end
  buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, 'deputy://input')
  vim.bo[buffer].bufhidden, vim.bo[buffer].filetype = 'hide', 'deputy_input'
  vim.bo[buffer].omnifunc = "v:lua.require'deputy.complete'.omnifunc"
  local keys = config.keys('input')
  map('n', keys.send, M.send, 'send')
  map({ 'n', 'i' }, keys.send_insert, M.send, 'send')
  map('n', keys.stop, require('deputy.agents').stop_all, 'stop all agents')
  map('n', config.keys('session').close, require('deputy.panel').close, 'close')
  vim.api.nvim_create_autocmd({ 'InsertEnter', 'InsertLeave' }, {
    buffer = buffer,
    -- Which key sends is another one then.
    callback = vim.schedule_wrap(require('deputy.panel').redraw),
  })
  return buffer
end

local function put(words)
  vim.api.nvim_buf_set_lines(M.buffer(), 0, -1, false, vim.split(words, '\n', { plain = true }))
end

local function written()
  return vim.trim(table.concat(vim.api.nvim_buf_get_lines(M.buffer(), 0, -1, false), '\n'))
end

local function say(words, blocks)
  require('deputy.panel').to_end()
  sessions.prompt(blocks, function()
    -- What was not taken is not lost.
    if written() == '' then
      put(words)
    end
  end)
end

--- Takes waiting prompts back into the input area, before what is written there; calls `done` when that is over.
---@param session deputy.Session
---@param prompts deputy.PromptQueueEntry[]
---@param done fun()?
function M.take_back(session, prompts, done)
  local words, left = {}, #prompts
  local function over()
    local back = {}
    for index in ipairs(prompts) do
      table.insert(back, words[index])
    end
    if #back > 0 then
      put(vim.trim(table.concat(back, '\n\n') .. '\n\n' .. written()))
    end
    if done then
      done()
    end
  end
  if left == 0 then
    over()
  end
  for index, prompt in ipairs(prompts) do
    local params = { sessionId = session.id, promptId = prompt.promptId }
    client.request('deputy/session/unqueue', params, function(answer)
      words[index] = answer and answer.removed and prompt.text or nil
      left = left - 1
      if left == 0 then
        over()
      end
    end, true)
  end
end

--- Sends what stands in the input area once there is a session; during a turn it waits in the queue.
function M.send()
  if written() == '' then
    return
  end
  require('deputy.panel').begin(function()
    local words = written()
    if words ~= '' then
      put('')
      say(words, { { type = 'text', text = words } })
    end
  end)
end

--- Says something to the current session, about a place where one is given, and shows the session.
---@param words string
---@param place { uri: string, range: lsp.Range? }?
function M.prompt(words, place)
  local blocks = { { type = 'text', text = words } }
  if place then
    table.insert(blocks, { type = 'resource_link', uri = place.uri, range = place.range })
  end
  require('deputy.panel').begin(function()
    say(words, blocks)
  end)
end

return M
