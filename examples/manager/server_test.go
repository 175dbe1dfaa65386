package manager_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// port is the port of a manager's webhooks, with functions that connect from different client addresses.
type port struct {
	t       *testing.T
	address string
	stop    context.CancelFunc
	closed  atomic.Int32
	cutOff  atomic.Int32
}

const apiServer, stranger = "127.0.0.1", "127.0.0.2"

func servePort(t *testing.T) *port {
	t.Helper()
	return servePortWith(t, nil, nil)
}

// servePortWith serves the webhooks, and an additional handler at /test. The webhooks use the client judge to
// validate templates.
func servePortWith(t *testing.T, test http.HandlerFunc, judge client.Writer) *port {
	t.Helper()
	example := httptest.NewTLSServer(http.NotFoundHandler())
	certificates := example.TLS.Certificates
	example.Close()
	number := freePort(t)
	p := &port{t: t, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(number))}
	options := admission.Options{Client: judge, CutOff: func(int) { p.cutOff.Add(1) }}
	handlers := admission.Handlers(options, kind.Endpoints(kinds.All(), options)...)
	if test != nil {
		handlers["/test"] = test
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	ended := make(chan error, 1)
	go func() {
		ended <- manager.ServeReviews(ctx, "127.0.0.1", number, func(c *tls.Config) { c.Certificates = certificates },
			func() { p.closed.Add(1) }, handlers)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	controlplanetest.Eventually(t, 10*time.Second, func(ctx context.Context) error {
		conn, err := p.dial(ctx, apiServer)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return p
}

// dial opens a connection from an address.
func (p *port) dial(ctx context.Context, from string) (net.Conn, error) {
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}},
		Config:    &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}, //nolint:gosec // a test
	}
	return dialer.DialContext(ctx, "tcp", p.address)
}

// open keeps a connection with the written text until the test ends.
func (p *port) open(from, text string) net.Conn {
	p.t.Helper()
	conn, err := p.dial(p.t.Context(), from)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	// With a small read buffer, the server cannot send an answer that the client does not read.
	if err := conn.(*tls.Conn).NetConn().(*net.TCPConn).SetReadBuffer(4096); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		p.t.Fatal(err)
	}
	return conn
}

// converted sends a ConversionReview, as an API server does.
func (p *port) converted(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.address+"/convert", bytes.NewReader(conversion(p.t, 1, 0)))
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err == nil && (answer.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("v1alpha1"))) {
		err = fmt.Errorf("status %d: %.200s", answer.StatusCode, body)
	}
	return err
}

// conversion returns a review with the given number of objects, each with an annotation of size bytes.
func conversion(t *testing.T, objects, size int) []byte {
	t.Helper()
	object := map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": map[string]any{
		"name": "web", "namespace": "default", "annotations": map[string]any{"padding": strings.Repeat("x", size)},
	}, "spec": map[string]any{}}
	all := make([]any, objects)
	for i := range all {
		all[i] = object
	}
	out, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
		"request": map[string]any{"uid": "1", "desiredAPIVersion": "apps.kruise.io/v1alpha1", "objects": all},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *port) client(from string) *http.Client {
	transport := &http.Transport{
		DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
		// An API server calls webhooks with these settings.
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}, //nolint:gosec // a test
		MaxIdleConnsPerHost: 25,
	}
	p.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestStrangersKeepNobodyOut: whatever hostile clients send to the webhook port, an API server with another address
// gets responses.
func TestStrangersKeepNobodyOut(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(p *port)
	}{
		{"many connections that say nothing", func(p *port) {
			for range 2 * manager.MaxConnections {
				p.open(stranger, "")
			}
		}},
		{"large bodies that never come", func(p *port) {
			for range 50 {
				p.open(stranger, "POST /convert HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n\r\n{")
			}
		}},
		{"the same from many addresses", func(p *port) {
			for i := range 100 {
				p.open(fmt.Sprintf("127.0.1.%d", 1+i/3), "POST /convert HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n\r\n{")
			}
		}},
		{"connections from many addresses that say nothing", func(p *port) {
			for i := range manager.MaxConnections {
				p.open(fmt.Sprintf("127.0.1.%d", 1+i/3), "")
			}
		}},
		{"large answers that nobody reads", func(p *port) {
			body := conversion(p.t, 30, 200_000)
			for range 5 {
				conn := p.open(stranger, fmt.Sprintf("POST /convert HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)))
				go func() { _, _ = conn.Write(body) }() // the write ends when the connection is closed
			}
		}},
		{"headers that never end", func(p *port) {
			for range 300 {
				p.open(stranger, "POST /convert HTTP/1.1\r\nHost: web")
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := servePort(t)
			client := p.client(apiServer)
			if err := p.converted(t.Context(), client); err != nil {
				t.Fatal(err)
			}
			tc.do(p)
			for i := range 20 {
				// The time limit of the API server's request is shorter than each time limit that the server sets for
				// hostile clients.
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				if err := p.converted(ctx, client); err != nil {
					t.Errorf("review %d: %v", i, err)
				}
				cancel()
			}
		})
	}
}

// TestNothingIsHeldForLong: a hostile client holds resources only for a short time, and then the server answers other
// requests from the same address.
func TestNothingIsHeldForLong(t *testing.T) {
	p := servePort(t)
	turn := func(after string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		if err := p.converted(ctx, p.client(stranger)); err != nil {
			t.Errorf("after %s: %v", after, err)
		}
	}
	late := p.open(stranger, "POST /convert HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n\r\n{")
	turn("a body that never comes")
	if answer, err := io.ReadAll(late); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408") {
		t.Errorf("a body that never comes: %v: %.100s", err, answer)
	}
	body := conversion(t, 40, 208_600) // as large as all running requests of an address together may be
	conn := p.open(stranger, fmt.Sprintf("POST /convert HTTP/1.1\r\nHost: webhooks\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)))
	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	turn("an answer that nobody reads")
}

// TestBusyConnectionsStay: connections with a running request stay open, whichever address has opened the
// connections.
func TestBusyConnectionsStay(t *testing.T) {
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	p := servePortWith(t, func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-goOn
	}, nil)
	var busy []net.Conn
	for range cap(begun) {
		busy = append(busy, p.open(apiServer, "GET /test HTTP/1.1\r\nHost: webhooks\r\nConnection: close\r\n\r\n"))
		<-begun
	}
	for i := range manager.MaxConnections {
		p.open(fmt.Sprintf("127.0.1.%d", 1+i/3), "")
	}
	close(goOn)
	for i, conn := range busy {
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
			t.Errorf("connection %d: %v: %.100s", i, err, answer)
		}
	}
}

// slowJudge is a client.Writer whose requests take as long as requests to a slow API server.
type slowJudge struct {
	client.Writer

	takes time.Duration
}

func (j slowJudge) Create(ctx context.Context, _ client.Object, _ ...client.CreateOption) error {
	select {
	case <-clock.RealClock{}.After(j.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admitted sends an AdmissionReview of a CloneSet, as an API server does.
func (p *port) admitted(ctx context.Context, client *http.Client) error {
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","name":"web","namespace":"default",` +
		`"kind":{"group":"apps.kruise.io","version":"v1beta1","kind":"CloneSet"},"resource":{"group":"apps.kruise.io","version":"v1beta1","resource":"clonesets"},` +
		`"object":{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web","namespace":"default"},"spec":{"replicas":0,` +
		`"selector":{"matchLabels":{"a":"b"}},"updateStrategy":{"type":"OnDelete"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"b"}]}}}}}}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+p.address+"/validate-apps-kruise-io-cloneset", strings.NewReader(review))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err == nil && !bytes.Contains(body, []byte(`"allowed":true`)) || bytes.Contains(body, []byte("warnings")) {
		err = fmt.Errorf("status %d: %.500s", answer.StatusCode, body)
	}
	return err
}

// TestReviewsUnderWayAreAnswered: a manager that receives a termination signal completes running reviews.
func TestReviewsUnderWayAreAnswered(t *testing.T) {
	p := servePort(t)
	review := conversion(t, 1, 0)
	head := fmt.Sprintf("POST /convert HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(review))
	conn := p.open(apiServer, head)
	answers := bufio.NewReader(conn)
	if begun, err := http.ReadResponse(answers, nil); err != nil || begun.StatusCode != http.StatusContinue {
		t.Fatalf("nobody reads the review: %v", err)
	}
	p.stop()
	controlplanetest.Eventually(t, 10*time.Second, func(ctx context.Context) error {
		if other, err := p.dial(ctx, apiServer); err == nil {
			return errors.Join(other.Close(), errors.New("the port is still open"))
		}
		return nil
	})
	if _, err := conn.Write(review); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status %d for a review that had begun before the manager was told to stop", answer.StatusCode)
	}
}

// TestHonestBurst: an API server of a large cluster sends several hundred reviews at once, each on its own
// connection. Each response needs a slow request to the API server, and takes longer than the time limit for
// receiving a review.
func TestHonestBurst(t *testing.T) {
	p := servePortWith(t, nil, slowJudge{takes: time.Second})
	client := p.client(apiServer)
	failed := make(chan error, 200)
	for range cap(failed) {
		go func() { failed <- p.admitted(t.Context(), client) }()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if p.cutOff.Load()+p.closed.Load() > 0 {
		t.Errorf("%d reviews and %d connections were cut off", p.cutOff.Load(), p.closed.Load())
	}
}

// TestConnectionsAreBounded: if there are too many connections, the server closes the oldest connection of the
// address with the most connections.
func TestConnectionsAreBounded(t *testing.T) {
	p := servePort(t)
	kept := p.open(apiServer, "")
	first := p.open(stranger, "")
	for range manager.MaxConnections {
		p.open(stranger, "")
	}
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("the first connection of the stranger is open")
	}
	if got := p.closed.Load(); got != 2 {
		t.Errorf("%d connections were closed, want 2", got)
	}
	if _, err := io.WriteString(kept, "GET /healthz HTTP/1.1\r\nHost: webhooks\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(kept); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("%v: %.100s", err, answer)
	}
}
