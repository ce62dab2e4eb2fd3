package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// diskCollector asks the file system of a folder at each scrape.
type diskCollector struct {
	what, folder string
	free, size   *prometheus.Desc
}

// newDiskCollector collects pawl_<name>_free_bytes and _size_bytes of the folder
// that holds what.
func newDiskCollector(name, what, folder string) *diskCollector {
	return &diskCollector{
		what: what, folder: folder,
		free: prometheus.NewDesc("pawl_"+name+"_free_bytes",
			"Bytes that pawl may still write on the disk of "+what+".", nil, nil),
		size: prometheus.NewDesc("pawl_"+name+"_size_bytes",
			"Size of the disk that "+what+" is on.", nil, nil),
	}
}

// Describe sends the descriptors.
func (c *diskCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.free
	ch <- c.size
}

// Collect sends both sizes, or why they can't be had; the other metrics of the
// scrape are not touched by that.
func (c *diskCollector) Collect(ch chan<- prometheus.Metric) {
	free, size, err := diskSpace(c.folder)
	if err != nil {
		err = fmt.Errorf("free space of %s, in %s: %w", c.what, c.folder, err)
		ch <- prometheus.NewInvalidMetric(c.free, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(c.free, prometheus.GaugeValue, float64(free))
	ch <- prometheus.MustNewConstMetric(c.size, prometheus.GaugeValue, float64(size))
}
