// Package telemetry makes what happened visible: metrics, log lines and traces.
//
// Three independent parts, each fed by an event sink or by hooks and each off
// until it is made:
//
//   - Telemetry counts events into a Prometheus registry of its own and asks
//     the engines for their state when it is scraped. Series exist only for
//     names of the configuration (SetTopology), so that nothing a message
//     carries can grow the registry.
//   - EventLog writes one line per settled failure, and the access log where
//     it is asked for, at a bounded rate and never a body. NewLogHandler is
//     the slog handler under it and under everything else pawl logs: it takes
//     secrets and control characters out.
//   - Tracer makes OpenTelemetry spans. A nil Tracer is tracing switched off
//     and costs nothing.
package telemetry
