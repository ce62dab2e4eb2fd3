// Command endpoint is the other side of the tour: it prints what it gets and
// answers 204. Stop it with Ctrl-C to see what pawl does without it.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

const address = "127.0.0.1:9090"

// maxBody is what it reads of a request; the tour's are shorter.
const maxBody = 1 << 20

func main() {
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(take), ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("endpoint: listening at http://%s, Ctrl-C stops it\n", address)
	log.SetFlags(0)
	log.Fatal("endpoint: ", server.ListenAndServe())
}

// take prints a request on one line.
func take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(os.Stdout, "%s  %s %s  key %s  %s\n",
		time.Now().Format(time.TimeOnly), r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), body)
	w.WriteHeader(http.StatusNoContent)
}
