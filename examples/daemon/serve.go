package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Health serves /livez, which always succeeds, and /healthz, which fails while the agent waits and returns the
// reasons. A liveness probe must not use /healthz, because the kubelet would then restart an agent that only waits.
func (d *Daemon) Health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		why := d.Waiting()
		if len(why) == 0 {
			_, _ = fmt.Fprint(w, "ok")
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		for _, one := range why {
			_, _ = fmt.Fprintln(w, one)
		}
	})
	return mux
}

// Metrics serves the metrics at /metrics.
func Metrics(from prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(from, promhttp.HandlerOpts{}))
	return mux
}

// Profiles serves profiles at /debug/pprof.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// Serve runs an HTTP server at an address until the context ends. If the address is empty, no server is started.
func Serve(ctx context.Context, address string, handler http.Handler) error {
	if address == "" {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve at %s: %w", address, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	logr.FromContextOrDiscard(ctx).Info("Serving", "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve at %s: %w", address, err)
	}
	return nil
}
