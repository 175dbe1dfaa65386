// Command shards runs the operator of package shards.
package main

import (
	"flag"
	"log"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/workloadkit/workloadkit/examples/embed/shards"
)

func main() {
	var o shards.Options
	flag.StringVar(&o.Namespace, "namespace", "shards", "of the Service and the certificate")
	flag.StringVar(&o.Host, "host", "", "the IP address of the webhook, in place of its Service")
	flag.IntVar(&o.Port, "port", 9443, "of the webhook")
	flag.Parse()
	if err := shards.Run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie(), o); err != nil {
		log.Fatal(err)
	}
}
