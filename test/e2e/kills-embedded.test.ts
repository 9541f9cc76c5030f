import { startEmbeddedProduct } from '../support/product.ts';
import { describeKills } from './kills.ts';

describeKills('the embedded product', startEmbeddedProduct);
