package telemetry

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// spanQueue is how many finished spans wait for the exporter; more are
	// dropped. Four seconds of a thousand messages a second, some 4 MB.
	spanQueue = 8192
	// spanBatch is how many spans go in one post: about 250 KB.
	spanBatch = 512
	// exportTimeout bounds one post with its repeats, so that a dead collector
	// is noticed before the queue has been full for long.
	exportTimeout = 10 * time.Second
	// spanAttributeBytes bounds one attribute; an error may hold an answer.
	spanAttributeBytes = 1024
)

// NewTracer returns a Tracer that posts spans by OTLP over HTTP. It opens no
// connection before the first span is finished.
func NewTracer(o TraceOptions) (*Tracer, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(context.Background(),
		otlptracehttp.WithEndpointURL(o.postTo()),
		otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithTimeout(exportTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: exportTimeout,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return newTracer(o, exporter), nil
}

// defaultPath is where a collector takes traces, unless told.
const defaultPath = "/v1/traces"

// postTo is the whole URL that spans are posted to. Left to itself the exporter
// would post to the root of a collector, which takes nothing there.
func (o TraceOptions) postTo() string {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Path != "" && u.Path != "/" {
		return o.Endpoint
	}
	u.Path = defaultPath
	return u.String()
}

// newTracer builds the pipeline in front of an exporter. Nothing is set
// globally.
func newTracer(o TraceOptions, exporter sdktrace.SpanExporter) *Tracer {
	problem := o.Problem
	if problem == nil {
		problem = func(error) {}
	}
	redact := o.Redact
	if redact == nil {
		redact = func(s string) string { return s }
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = spanAttributeBytes
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(reporting{exporter, problem},
			sdktrace.WithMaxQueueSize(spanQueue),
			sdktrace.WithMaxExportBatchSize(spanBatch),
			sdktrace.WithExportTimeout(exportTimeout),
		),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.SampleRatio))),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithIDGenerator(spanIDs{}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "pawl"),
			attribute.String("service.instance.id", o.Relay),
			attribute.String("service.version", o.Version),
		)),
	)
	return &Tracer{spans: provider.Tracer("github.com/pawlhq/pawl"), redact: redact, close: provider.Shutdown}
}

// reporting gives an exporter's errors to a function instead of the SDK's
// process-wide handler.
type reporting struct {
	sdktrace.SpanExporter
	problem func(error)
}

// ExportSpans never fails for the SDK.
func (r reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.problem(fmt.Errorf("traces: %d spans were not exported: %w", len(spans), err))
	}
	return nil
}
