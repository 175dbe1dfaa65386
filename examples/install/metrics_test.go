package install_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// account creates a ServiceAccount in a namespace, bound to a ClusterRole unless role is empty, and returns the
// account's token.
func (c *cluster) account(namespace, name, role string) string {
	c.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.Create(c.t.Context(), account); err != nil {
		c.t.Fatal(err)
	}
	if role != "" {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
		}
		if err := c.Create(c.t.Context(), binding); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), binding) })
	}
	clientset, err := kubernetes.NewForConfig(env.Start(c.t).Config())
	if err != nil {
		c.t.Fatal(err)
	}
	token, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(c.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return token.Status.Token
}

// scrape reads metrics.
func scrape(ctx context.Context, url, token string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// As with a ServiceMonitor, the certificate is not verified: the manager has made the certificate itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // a test
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	return response.StatusCode, string(raw), err
}

// TestMetricsForThoseWhoMay: secure metrics can be read only with a valid token of a user who may read metrics. To
// check tokens and users, the manager needs permissions that examples/config/metrics-secure grants, and
// examples/config/default does not grant.
func TestMetricsForThoseWhoMay(t *testing.T) {
	c := fresh(t)
	c.apply("-k", "examples/config/default")
	extra := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kruise-metrics-auth"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-metrics-auth"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kruise-metrics-reader"}},
	}
	t.Cleanup(func() {
		for _, obj := range extra {
			_ = c.Delete(context.WithoutCancel(t.Context()), obj)
		}
	})
	address := net.JoinHostPort("localhost", strconv.Itoa(freePort(t)))
	runManager(t, c.asManager(), func(o *manager.Options) { o.Webhooks, o.MetricsAddress, o.MetricsSecure = nil, address, true })
	ns := env.Namespace(t)
	stranger, reader := c.account(ns, "stranger", ""), c.account(ns, "reader", "kruise-metrics-reader")
	expect := func(what, scheme, token string, want int) {
		t.Helper()
		controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
			status, body, err := scrape(ctx, scheme+"://"+address+"/metrics", token)
			if err == nil && (status != want || (status == http.StatusOK) != strings.Contains(body, "# HELP")) {
				err = fmt.Errorf("%s: status %d, want %d: %.200s", what, status, want, body)
			}
			return err
		})
	}
	expect("without rights of the manager", "https", reader, http.StatusInternalServerError)
	c.apply("-k", "examples/config/metrics-secure")
	expect("whoever may", "https", reader, http.StatusOK)
	expect("whoever may not", "https", stranger, http.StatusForbidden)
	expect("nobody in particular", "https", "", http.StatusUnauthorized)
	expect("a forged token", "https", "forged", http.StatusUnauthorized)
	if status, body, err := scrape(t.Context(), "http://"+address+"/metrics", reader); err == nil && status == http.StatusOK {
		t.Errorf("served in the clear: %.200s", body)
	}
}

// TestMetricsAreInTheClearByDefault: by default the manager serves metrics by HTTP without authentication, as
// OpenKruise does, and has no permissions for features that are off.
func TestMetricsAreInTheClearByDefault(t *testing.T) {
	c := fresh(t)
	c.apply("-k", "examples/config/default")
	address := net.JoinHostPort("localhost", strconv.Itoa(freePort(t)))
	runManager(t, c.asManager(), func(o *manager.Options) { o.Webhooks, o.MetricsAddress = nil, address })
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		status, body, err := scrape(ctx, "http://"+address+"/metrics", "")
		if err == nil && (status != http.StatusOK || !strings.Contains(body, "# HELP")) {
			err = fmt.Errorf("status %d: %.200s", status, body)
		}
		return err
	})
	for what, text := range map[string]string{"kustomization": kustomize(t), "chart": must(t)(template(t))} {
		for _, obj := range parse(t, text) {
			if strings.Contains(fmt.Sprint(obj.Object["rules"]), "tokenreviews") {
				t.Errorf("%s: %s grants what only secure metrics need", what, key(obj))
			}
		}
	}
}
