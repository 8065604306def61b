-- Asks with a different header each time, from the file that is named after `--`, when one is: a header's value a line.
local values = {}
local turn = 0

function init(arguments)
  if arguments[1] then
    for line in io.lines(arguments[1]) do values[#values + 1] = line end
  end
end

function request()
  if #values == 0 then return wrk.format() end
  turn = turn % #values + 1
  wrk.headers["Authorization"] = values[turn]
  return wrk.format()
end

-- Has wrk print its figures as one JSON object on the last line, latencies in seconds.
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "failures": %d, "p50": %.6f, "p90": %.6f, "p99": %.6f, "slowest": %.6f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e6, latency:percentile(90) / 1e6, latency:percentile(99) / 1e6, latency.max / 1e6))
end
