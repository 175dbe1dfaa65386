package rotator_test

import (
	"context"
	"crypto/tls"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/webhookcert"
	"github.com/workloadkit/workloadkit/webhookcert/rotator"
)

// In an operator, client.NewWithWatch makes the client, and the result of Server is set in the manager's options.
func Example() {
	named := func(o client.Object) []string { return []string{o.GetName()} }
	c := fake.NewClientBuilder().WithObjects(mutating()).
		WithIndex(&corev1.Secret{}, "metadata.name", named).WithIndex(mutating(), "metadata.name", named).Build()
	certs, err := rotator.New(rotator.Options{
		Client: c, Secret: client.ObjectKey{Namespace: "system", Name: "webhook-certs"}, Mutating: []string{"pods-defaults"},
		Config: webhookcert.Config{DNSNames: []string{"webhooks.system.svc"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = certs.Start(ctx) }()
	<-certs.Initialised()

	server := &tls.Config{} // webhook.Options{TLSOpts: []func(*tls.Config){certs.TLS}}
	certs.TLS(server)
	certificate, err := server.GetCertificate(nil)
	fmt.Println(certificate.Leaf.DNSNames, err, certs.Ready(ctx))
	// Output: [webhooks.system.svc] <nil> <nil>
}
