-- Sends a different header with each request, from the file that `--` names, if it names one. Each line has a header; after a tab, the path, if
-- it is not the path of the address; after another tab, the body to post.
local asked = {}
local turn = 0

function init(arguments)
  if arguments[1] then
    for line in io.lines(arguments[1]) do
      local name, value, path, body = line:match("^([^:]+): ([^\t]+)\t?([^\t]*)\t?(.*)$")
      asked[#asked + 1] = {name = name, value = value, path = path ~= "" and path or nil, body = body ~= "" and body or nil}
    end
  end
end

function request()
  if #asked == 0 then return wrk.format() end
  turn = turn % #asked + 1
  local one = asked[turn]
  wrk.headers[one.name] = one.value
  return wrk.format(one.body and "POST" or nil, one.path, nil, one.body)
end

-- Makes wrk print its figures as one JSON object on the last line, with latencies in seconds.
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "failures": %d, "p50": %.6f, "p90": %.6f, "p99": %.6f, "slowest": %.6f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e6, latency:percentile(90) / 1e6, latency:percentile(99) / 1e6, latency.max / 1e6))
end
