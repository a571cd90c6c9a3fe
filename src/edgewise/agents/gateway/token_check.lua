-- Lets a request pass only with the seat's token. The route carries nothing but the
-- token's SHA-256, so no secret is in Envoy's configuration, its dumps or its logs.
local bit = require("bit")
local band, bnot, bxor = bit.band, bit.bnot, bit.bxor
local ror, rshift, lshift, tobit = bit.ror, bit.rshift, bit.lshift, bit.tobit

local LONGEST_TOKEN = 512

-- The round constants and the start state are the first 32 bits of the fractional
-- parts of the cube and square roots of the first primes.
local function fraction(root)
  return tobit(math.floor((root - math.floor(root)) * 4294967296))
end

local K, START = {}, {}
do
  local candidate, found = 2, 0
  while found < 64 do
    local prime = true
    for divisor = 2, math.floor(math.sqrt(candidate)) do
      if candidate % divisor == 0 then prime = false break end
    end
    if prime then
      found = found + 1
      K[found] = fraction(candidate ^ (1 / 3))
      if found <= 8 then START[found] = fraction(math.sqrt(candidate)) end
    end
    candidate = candidate + 1
  end
end

local function sha256(text)
  local length = #text
  local padded = text .. "\128" .. string.rep("\0", (55 - length) % 64)
    .. "\0\0\0\0" .. string.char(
      band(rshift(length * 8, 24), 255), band(rshift(length * 8, 16), 255),
      band(rshift(length * 8, 8), 255), band(length * 8, 255))
  local state = {unpack(START)}
  local w = {}
  for block = 1, #padded, 64 do
    for i = 1, 16 do
      local b1, b2, b3, b4 = string.byte(padded, block + (i - 1) * 4, block + i * 4 - 1)
      w[i] = lshift(b1, 24) + lshift(b2, 16) + lshift(b3, 8) + b4
    end
    for i = 17, 64 do
      local x, y = w[i - 15], w[i - 2]
      local s0 = bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
      local s1 = bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
      w[i] = tobit(w[i - 16] + s0 + w[i - 7] + s1)
    end
    local a, b, c, d, e, f, g, h = unpack(state)
    for i = 1, 64 do
      local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
      local choice = bxor(band(e, f), band(bnot(e), g))
      local t1 = tobit(h + s1 + choice + K[i] + w[i])
      local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
      local majority = bxor(band(a, b), band(a, c), band(b, c))
      h, g, f, e = g, f, e, tobit(d + t1)
      d, c, b, a = c, b, a, tobit(t1 + s0 + majority)
    end
    local sum = {a, b, c, d, e, f, g, h}
    for i = 1, 8 do state[i] = tobit(state[i] + sum[i]) end
  end
  local hex = {}
  for i = 1, 8 do hex[i] = bit.tohex(state[i]) end
  return table.concat(hex)
end

local function unescape(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- Splits the token off a path: what is left, and the token if there was one.
local function without_token(path)
  local before, query = path:match("^([^?]*)%?(.*)$")
  if not query then return path, nil end
  local kept, token = {}, nil
  for pair in query:gmatch("[^&]+") do
    local value = pair:match("^edgewise_token=(.*)$")
    if value then token = unescape(value) else kept[#kept + 1] = pair end
  end
  if not token then return path, nil end
  if #kept == 0 then return before, token end
  return before .. "?" .. table.concat(kept, "&"), token
end

-- What was meant for the gateway never reaches the pod, right or wrong; a bearer token
-- that is not ours is the application's own.
local function may_pass(handle)
  local expected = handle:filterContext():get("token_sha256")
  local function opens(token)
    return #token <= LONGEST_TOKEN and sha256(token) == expected
  end
  local headers = handle:headers()
  local path, in_query = without_token(headers:get(":path"))
  local in_header = headers:get("x-edgewise-token")
  local bearer = (headers:get("authorization") or ""):match("^[Bb][Ee][Aa][Rr][Ee][Rr] +(%S+)$")
  local allowed = false
  if in_query then
    headers:replace(":path", path)
    allowed = opens(in_query)
  end
  if in_header then
    headers:remove("x-edgewise-token")
    allowed = opens(in_header) or allowed
  end
  if bearer and opens(bearer) then
    headers:remove("authorization")
    allowed = true
  end
  return allowed
end

function envoy_on_request(handle)
  -- Envoy lets a request pass if a script fails; here a failure must close the door.
  local sound, allowed = pcall(may_pass, handle)
  if not (sound and allowed) then
    handle:respond(
      {[":status"] = "401", ["www-authenticate"] = "Bearer", ["content-type"] = "text/plain"},
      "This endpoint needs its token: send it as Authorization: Bearer, " ..
      "as x-edgewise-token, or as ?edgewise_token=.\n")
  end
end
