// Command etcd is the etcd server, built from here because etcd's server module contains no command.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
