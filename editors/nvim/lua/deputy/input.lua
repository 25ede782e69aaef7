--- The input area: its text is sent as a prompt, or queued during a turn.

local client = require('deputy.client')
local config = require('deputy.config')
local sessions = require('deputy.session')

local M = {}

local buffer ---@type integer?
local waiting = {} ---@type string[] prompts of commands that wait for a session

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
    -- Another key sends in Insert mode.
    callback = vim.schedule_wrap(require('deputy.panel').redraw),
  })
  return buffer
end

local function set_text(text)
  vim.api.nvim_buf_set_lines(M.buffer(), 0, -1, false, vim.split(text, '\n', { plain = true }))
end

local function current_text()
  return vim.trim(table.concat(vim.api.nvim_buf_get_lines(M.buffer(), 0, -1, false), '\n'))
end

--- Puts a text before that of the input area, and shows it.
---@param text string
function M.restore(text)
  set_text(vim.trim(text .. '\n\n' .. current_text()))
  require('deputy.panel').open()
end

--- Puts the prompts of commands that found no server into the input area.
function M.give_back()
  local lost = vim.trim(table.concat(waiting, '\n\n'))
  waiting = {}
  if lost ~= '' then
    set_text(vim.trim(lost .. '\n\n' .. current_text()))
  end
end

local function send(text, blocks)
  require('deputy.panel').to_end()
  sessions.prompt(blocks, function()
    -- Restore a rejected prompt.
    if current_text() == '' then
      set_text(text)
    end
  end)
end

--- Moves queued prompts into the input area, before its current text, and then calls `done`.
---@param session deputy.Session
---@param prompts deputy.PromptQueueEntry[]
---@param done fun()?
function M.unqueue(session, prompts, done)
  local texts, left = {}, #prompts
  local function finish()
    local removed = {}
    for index in ipairs(prompts) do
      table.insert(removed, texts[index])
    end
    if #removed > 0 then
      set_text(vim.trim(table.concat(removed, '\n\n') .. '\n\n' .. current_text()))
    end
    if done then
      done()
    end
  end
  if left == 0 then
    finish()
  end
  for index, prompt in ipairs(prompts) do
    local params = { sessionId = session.id, promptId = prompt.promptId }
    client.request('deputy/session/unqueue', params, function(answer)
      texts[index] = answer and answer.removed and prompt.text or nil
      left = left - 1
      if left == 0 then
        finish()
      end
    end, true)
  end
end

--- Sends the text of the input area once there is a session; during a turn it is queued.
function M.send()
  if current_text() == '' then
    return
  end
  require('deputy.panel').begin(function()
    local text = current_text()
    if text ~= '' then
      set_text('')
      send(text, { { type = 'text', text = text } })
    end
  end)
end

--- Sends a prompt to the current session, with a location if one is given, and shows the session.
---@param text string
---@param place { uri: string, range: lsp.Range? }?
function M.prompt(text, place)
  local blocks = { { type = 'text', text = text } }
  if place then
    table.insert(blocks, { type = 'resource_link', uri = place.uri, range = place.range })
  end
  table.insert(waiting, text)
  require('deputy.panel').begin(function()
    waiting = {}
    send(text, blocks)
  end)
end

return M
