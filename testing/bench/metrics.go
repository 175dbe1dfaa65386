package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// reconciles is the number of finished reconciles of all controllers of a manager, and their total duration in seconds.
type reconciles struct{ count, seconds float64 }

// scrape reads reconciles from the metrics of a controller-runtime manager at a URL. If the URL is empty, the result is
// zero.
func scrape(ctx context.Context, url string) (r reconciles, err error) {
	if url == "" {
		return r, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return r, fmt.Errorf("metrics of the manager, %s: %w", url, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, fmt.Errorf("metrics of the manager: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return r, fmt.Errorf("metrics of the manager, %s: %s", url, answer.Status)
	}
	if r, err = readReconciles(answer.Body); err != nil {
		return r, fmt.Errorf("metrics of the manager, %s: %w", url, err)
	}
	return r, nil
}

func readReconciles(metrics io.Reader) (r reconciles, err error) {
	lines := bufio.NewScanner(metrics)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), "controller_runtime_reconcile_time_seconds_")
		name, _, _ := strings.Cut(rest, "{")
		if !found || name != "sum" && name != "count" {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return r, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		if name == "sum" {
			r.seconds += value
		} else {
			r.count += value
		}
	}
	return r, lines.Err()
}

// milliseconds returns the average duration of the reconciles since an earlier scrape, or 0 if there were none.
func (r reconciles) milliseconds(since reconciles) float64 {
	if r.count <= since.count {
		return 0
	}
	return (r.seconds - since.seconds) / (r.count - since.count) * 1000
}
