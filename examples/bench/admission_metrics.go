package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// histogram is a metric of the API server or the manager: the durations of calls.
type histogram struct {
	count, seconds float64
	buckets        []bucket // sorted by bound
}

// bucket is the number of calls that took no longer than a given time.
type bucket struct{ bound, count float64 }

// hook is a webhook for Pods: its name in the API server's metrics, and its path.
type hook struct{ name, path string }

func creationHook() hook { return hook{"mpod.kb.io", "/mutate-pod"} }
func deletionHook() hook { return hook{"vpod.kb.io", "/validate-pod"} }

// calls returns how long the calls of a webhook took, as measured by the API server and by the manager.
func (g *generator) calls(ctx context.Context, of hook) (byServer, byManager histogram, err error) {
	raw, err := g.clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return byServer, byManager, fmt.Errorf("metrics of the API server: %w", err)
	}
	if byServer, err = readHistogram(raw, "apiserver_admission_webhook_admission_duration_seconds", `name="`+of.name+`"`, `rejected="false"`); err != nil {
		return byServer, byManager, fmt.Errorf("metrics of the API server: %w", err)
	}
	if raw, err = bodyOf(ctx, g.cluster.Metrics); err == nil {
		byManager, err = readHistogram(raw, "controller_runtime_webhook_latency_seconds", `webhook="`+of.path+`"`)
	}
	if err != nil {
		err = fmt.Errorf("metrics of the manager: %w", err)
	}
	return byServer, byManager, err
}

// bodyOf returns the body of an answer, whatever the status code.
func bodyOf(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	var body bytes.Buffer
	_, err = body.ReadFrom(answer.Body)
	return body.Bytes(), err
}

// readHistogram returns the sum of the histograms that have the given name and labels.
func readHistogram(metrics []byte, name string, labels ...string) (out histogram, err error) {
	at := map[float64]int{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), name+"_")
		for _, label := range labels {
			found = found && strings.Contains(rest, label)
		}
		if !found {
			continue
		}
		part, _, _ := strings.Cut(rest, "{")
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return out, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		switch part {
		case "count":
			out.count += value
		case "sum":
			out.seconds += value
		case "bucket":
			_, after, _ := strings.Cut(rest, `le="`)
			text, _, _ := strings.Cut(after, `"`)
			bound, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return out, fmt.Errorf("line %q: %w", lines.Text(), err)
			}
			if _, known := at[bound]; !known {
				at[bound] = len(out.buckets)
				out.buckets = append(out.buckets, bucket{bound: bound})
			}
			out.buckets[at[bound]].count += value
		}
	}
	return out, lines.Err()
}

// since returns a histogram of only those calls that were made after the histogram before was read.
func (h histogram) since(before histogram) histogram {
	out := histogram{count: h.count - before.count, seconds: h.seconds - before.seconds}
	for i, b := range h.buckets {
		if i < len(before.buckets) {
			b.count -= before.buckets[i].count
		}
		out.buckets = append(out.buckets, b)
	}
	return out
}

// String returns the mean and the upper bound of the median, in milliseconds.
func (h histogram) String() string {
	if h.count == 0 {
		return "-"
	}
	text := fmt.Sprintf("%.1f", h.seconds/h.count*1000)
	for _, b := range h.buckets {
		if b.count >= h.count/2 && !math.IsInf(b.bound, 1) {
			return text + fmt.Sprintf(" (<= %g)", b.bound*1000)
		}
	}
	return text
}
