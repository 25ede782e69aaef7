--- The model of a session, its effort and its thinking.

local client = require('deputy.client')
local text = require('deputy.text')

local M = {}

local EFFORTS = { 'low', 'medium', 'high', 'xhigh', 'max', 'default' }
local THINKING = { 'auto', 'off', 'always', 'default' }

local known = {} ---@type deputy.ListedModel[] the models as last listed

---@param names string[]
---@param lead string
---@return string[]
local function starting(names, lead)
  return vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, names)
end

---@param callback fun(models: deputy.ListedModel[])
local function list(callback)
  client.request('deputy/model/list', vim.empty_dict(), function(answer)
    known = answer and answer.models or {}
    if answer and answer.problem then
      vim.notify('Deputy: ' .. text.one_line(answer.problem), vim.log.levels.WARN)
    end
    callback(known)
  end)
end

--- The window, the price and the efforts of a model.
---@param model deputy.ListedModel
---@return string
local function facts(model)
  local parts = {}
  if model.window then
    table.insert(parts, text.tokens(model.window) .. ' tokens')
  end
  if model.price then
    table.insert(parts, ('$%g in, $%g out'):format(model.price.input, model.price.output))
  end
  if model.efforts and #model.efforts > 0 then
    table.insert(parts, table.concat(model.efforts, ' '))
  end
  return #parts > 0 and '  ' .. table.concat(parts, ' · ') or ''
end

---@param change { model?: string, effort?: string, thinking?: string }
local function set(change)
  require('deputy.session').with(function(session)
    client.request('deputy/session/setModel', vim.tbl_extend('error', { sessionId = session.id }, change))
  end)
end

--- Sets what the user has given, or what they select.
---@param field 'model'|'effort'|'thinking'
---@param given string?
---@param choices any[]
---@param options table of `vim.ui.select`
local function set_or_select(field, given, choices, options)
  if given and given ~= '' then
    return set({ [field] = given })
  end
  vim.ui.select(choices, options, function(chosen)
    if chosen then
      set({ [field] = type(chosen) == 'table' and chosen.name or chosen })
    end
  end)
end

--- Names of models that start with `lead`; lists them in the background for the next time.
---@param lead string
---@return string[]
function M.complete(lead)
  if #known == 0 then
    list(function() end)
    vim.wait(500, function()
      return #known > 0
    end)
  end
  return starting(
    vim.tbl_map(function(model)
      return model.name
    end, known),
    lead
  )
end

--- Sets the model; any name is accepted.
---@param model string?
function M.model(model)
  if model and model ~= '' then
    return set({ model = model })
  end
  list(function(models)
    set_or_select('model', nil, models, {
      prompt = 'Model',
      format_item = function(one)
        return text.one_line(one.displayName or one.name) .. facts(one)
      end,
    })
  end)
end

---@param lead string
---@return string[]
function M.efforts(lead)
  return starting(EFFORTS, lead)
end

---@param effort string?
function M.effort(effort)
  set_or_select('effort', effort, EFFORTS, { prompt = 'Effort' })
end

---@param lead string
---@return string[]
function M.thinking_modes(lead)
  return starting(THINKING, lead)
end

---@param thinking string?
function M.thinking(thinking)
  set_or_select('thinking', thinking, THINKING, { prompt = 'When does the model think?' })
end

return M
