package prober

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/workloadkit/workloadkit/node/probing"
)

// get sends an HTTP request: without a proxy, without following redirects, and over a new connection. Status codes
// from 200 to 399 pass, and the body is the message. The body of a failure is not part of the message, because the
// body may contain data that readers of the Pod's status must not see (kubernetes#99425).
func (p *Prober) get(ctx context.Context, get *probing.HTTPGet) probing.Result {
	request, err := p.requestOf(ctx, get)
	if err != nil {
		return undecided(err.Error())
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: most,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, get.Address.String()) },
		// Certificates are not verified, as in the kubelet, because Pods often use self-signed certificates.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return failed(ctx, err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, most))
	_ = answer.Body.Close() // the rest of the body is not needed
	switch code := answer.StatusCode; {
	case err != nil:
		return failed(ctx, err)
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return probing.Result{Verdict: probing.Fail, Message: fmt.Sprintf("HTTP status %d", code)}
	case code >= http.StatusMultipleChoices:
		return probing.Result{Verdict: probing.Pass, Message: fmt.Sprintf("HTTP status %d: the redirect is not followed", code)}
	default:
		return probing.Result{Verdict: probing.Pass, Message: string(body)}
	}
}

// requestOf returns the request of a probe, by the kubelet's rules: a header User-Agent or Accept of the probe
// replaces the default, an empty Accept removes the default, and a header Host sets the host of the request.
func (p *Prober) requestOf(ctx context.Context, get *probing.HTTPGet) (*http.Request, error) {
	target, err := url.Parse(get.Path)
	if err != nil || target.Host != "" || target.Scheme != "" {
		target = &url.URL{Path: get.Path}
	}
	target.Scheme, target.Host = get.Scheme, get.Address.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range get.Headers {
		request.Header.Add(h.Name, h.Value)
	}
	setDefault(request.Header, "User-Agent", p.agent)
	if setDefault(request.Header, "Accept", "*/*"); request.Header.Get("Accept") == "" {
		request.Header.Del("Accept")
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
		request.Header.Del("Host")
	}
	return request, nil
}

func setDefault(header http.Header, name, value string) {
	if _, given := header[name]; !given {
		header.Set(name, value)
	}
}
