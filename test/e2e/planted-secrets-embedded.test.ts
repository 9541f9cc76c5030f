import { startEmbeddedProduct } from '../support/product.ts';
import { describePlantedSecrets } from './planted-secrets.ts';

describePlantedSecrets('the embedded product', (settings) => startEmbeddedProduct('trace', settings));
